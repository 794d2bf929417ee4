# What the smoke tests of the benchmarks share. JSON is where a report goes.

set(number "[0-9]+\\.?[0-9]*")
set(range "${number} \\[${number}-${number}\\]")

# Runs a command with --smoke; out, err and code are what came of it.
macro(run_smoke)
  file(REMOVE ${JSON})
  execute_process(COMMAND ${ARGN} --smoke --json ${JSON} OUTPUT_VARIABLE out ERROR_VARIABLE err RESULT_VARIABLE code)
endmacro()

function(require_success)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "it ended with ${code}\n${out}\n${err}")
  endif()
endfunction()

# Each is a regular expression.
function(require_rows)
  foreach(row IN LISTS ARGN)
    if(NOT out MATCHES "${row}")
      message(FATAL_ERROR "no line like\n  ${row}\nin\n${out}")
    endif()
  endforeach()
endfunction()

# The report is of this benchmark. It is left in `report`.
macro(require_report benchmark)
  file(READ ${JSON} report)
  string(JSON name GET "${report}" benchmark)
  if(NOT name STREQUAL "${benchmark}")
    message(FATAL_ERROR "${JSON} is not the report of ${benchmark}")
  endif()
endmacro()

# And it says on which machine.
function(require_machine)
  string(JSON cpu GET "${report}" machine cpu)
  if(cpu STREQUAL "")
    message(FATAL_ERROR "${JSON} does not name the processor")
  endif()
endfunction()
