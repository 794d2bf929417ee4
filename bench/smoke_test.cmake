# Runs a benchmark briefly: it must end with 0, print a row for everything that it measures, and
# write its JSON. No time is judged.
#   cmake -D PROGRAM=... -D BENCH=all_reduce|training -D GLOO=0|1 -D JSON=... -P smoke_test.cmake
file(REMOVE ${JSON})
execute_process(COMMAND ${PROGRAM} --smoke --json ${JSON} OUTPUT_VARIABLE out ERROR_VARIABLE err
                RESULT_VARIABLE code)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} ended with ${code}\n${out}\n${err}")
endif()

set(number "[0-9]+\\.?[0-9]*")
set(range "\\[-?${number}(-| to )-?${number}\\]")
set(gloo_time "-")
set(gloo_ratio "-")
if(GLOO)
  set(gloo_time "${number} [um]s ${range} +\\| +${number}")
  set(gloo_ratio "${number}x ${range}")
  set(expected "Gloo: through c10d of LibTorch ")
else()
  set(gloo_time "- +\\| +-")
  set(expected "Gloo: not in this LibTorch")
endif()
if(BENCH STREQUAL "all_reduce")
  foreach(size "4 B" "1 KiB" "128 KiB")
    list(APPEND expected
         "\\| ${size} +\\| +${number} [um]s ${range} +\\| +${number} +\\| +${gloo_time} +\\| +${number} +\\| +${gloo_ratio} \\|")
  endforeach()
else()
  set(speed "\\| +${number} ${range} +\\| +${number} [um]s ${range} \\|")
  foreach(row "2 workers x 32, Troupe multi-worker" "1 worker x 32, by hand, alone"
              "1 worker x 64, Troupe one-device" "1 worker x 64, by hand")
    list(APPEND expected "\\| ${row} +${speed}")
  endforeach()
  list(APPEND expected "\\| samples/s, Troupe / Gloo +\\| +${gloo_ratio} \\|"
                       "\\| efficiency, Troupe / \\(2 x alone\\) +\\| +${number} ${range} % \\|"
                       "\\| added to a step, Troupe one-device - by hand +\\| +-?${number} ${range} us \\|")
endif()
foreach(row IN LISTS expected)
  if(NOT out MATCHES "${row}")
    message(FATAL_ERROR "no line like\n  ${row}\nin\n${out}")
  endif()
endforeach()

file(READ ${JSON} json)
string(JSON name GET "${json}" benchmark)
string(JSON cpu GET "${json}" machine cpu)
if(NOT name STREQUAL BENCH OR cpu STREQUAL "")
  message(FATAL_ERROR "${JSON} is not the report of ${BENCH}")
endif()
