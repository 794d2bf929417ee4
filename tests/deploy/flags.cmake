# Every word in examples/deploy/ that looks like a flag must be one: of the training programs, of `troupe run`,
# or of a launcher, and those are listed here. Scripts must be free of syntax errors.
#   cmake -D SOURCE=<root> -D MNIST=<program> [-D TOOL=<troupe>] -P flags.cmake
cmake_minimum_required(VERSION 3.23)

set(launchers_flags
    # srun, sbatch
    --cpus-per-task --kill-on-bad-exit --job-name --nodes --ntasks-per-node --time --requeue
    --open-mode --signal
    # mpirun
    --host --map-by --bind-to
    # torchrun
    --nnodes --nproc_per_node --rdzv_backend --rdzv_endpoint --rdzv_id --max_restarts --no_python --no-python
    # kubectl
    --from-file
    # apt-get, useradd, docker, systemctl
    --no-install-recommends --create-home --uid --from --now --init)

set(known ${launchers_flags})
execute_process(COMMAND ${MNIST} --help-all OUTPUT_VARIABLE help RESULT_VARIABLE code)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "${MNIST} --help-all ended with ${code}")
endif()
execute_process(COMMAND ${TOOL} run --help OUTPUT_VARIABLE tool_help RESULT_VARIABLE code)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "${TOOL} run --help ended with ${code}")
endif()
string(REGEX MATCHALL "--[a-z][a-z_-]*" words "${help} ${tool_help}")
list(APPEND known ${words})

set(failures "")
set(count 0)
file(GLOB files ${SOURCE}/examples/deploy/*)
foreach(file IN LISTS files)
  file(READ ${file} content)
  string(REPLACE ";" "," content "${content}")
  # A flag stands behind white space, a quote or an opening bracket.
  string(REGEX MATCHALL "[ \t\n`'\"(]--[a-z][a-z_-]*" words "${content}")
  foreach(word IN LISTS words)
    string(SUBSTRING "${word}" 1 -1 word)
    math(EXPR count "${count} + 1")
    if(NOT word IN_LIST known)
      list(APPEND failures "${file}: ${word} is a flag of nobody")
    endif()
  endforeach()
  if(content MATCHES "^#!/bin/bash")
    execute_process(COMMAND bash -n ${file} ERROR_VARIABLE error RESULT_VARIABLE code)
    if(NOT code EQUAL 0)
      list(APPEND failures "${error}")
    endif()
  endif()
endforeach()
if(count LESS 40)
  list(APPEND failures "only ${count} flags were found in examples/deploy/: is SOURCE right?")
endif()
if(failures)
  list(JOIN failures "\n  " lines)
  message(FATAL_ERROR "examples/deploy/:\n  ${lines}")
endif()
message(STATUS "examples/deploy/: ${count} flags, all known")
