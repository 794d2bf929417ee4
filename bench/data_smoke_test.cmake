# Runs bench_data briefly: it must end with 0, print a row for each pipeline, and write its JSON. That
# both read the same examples the program checks itself. No time is judged.
#   cmake -D PROGRAM=... -D JSON=... -P data_smoke_test.cmake
cmake_minimum_required(VERSION 3.23)
file(REMOVE ${JSON})
execute_process(COMMAND ${PROGRAM} --smoke --json ${JSON} OUTPUT_VARIABLE out ERROR_VARIABLE err
                RESULT_VARIABLE code)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} ended with ${code}\n${out}\n${err}")
endif()
set(number "[0-9]+\\.?[0-9]*")
set(range "\\[${number}-${number}\\]")
foreach(row "\\| Troupe +\\| +${number} ${range} +\\| +${number}x ${range} \\|"
            "\\| torch::data, MNIST \\+ Normalize \\+ Stack +\\| +${number} ${range} +\\| +- \\|")
  if(NOT out MATCHES "${row}")
    message(FATAL_ERROR "no line like\n  ${row}\nin\n${out}")
  endif()
endforeach()
file(READ ${JSON} json)
string(JSON name GET "${json}" benchmark)
string(JSON rounds LENGTH "${json}" results troupe samples_per_second)
if(NOT name STREQUAL "data" OR NOT rounds EQUAL 2)
  message(FATAL_ERROR "${JSON} is not the report of a smoke run of bench_data")
endif()
