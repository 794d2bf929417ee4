# Runs bench_data briefly: it must end with 0, print a row for each pipeline, and write its JSON. That
# both read the same examples the program checks itself. No time is judged.
#   cmake -D PROGRAM=... -D JSON=... -P data_smoke_test.cmake
cmake_minimum_required(VERSION 3.23)
include(${CMAKE_CURRENT_LIST_DIR}/smoke_report.cmake)
run_smoke(${PROGRAM})
require_success()
set(rates "${number} \\[${number}-${number}\\]")
require_rows("\\| Troupe +\\| +${rates} +\\| +${number}x \\[${number}-${number}\\] \\|"
             "\\| torch::data, MNIST \\+ Normalize \\+ Stack +\\| +${rates} +\\| +- \\|")
require_rows("\\| 1 +\\| +${rates} +\\| +- \\|"
             "\\| 4 +\\| +${rates} +\\| +${number}x \\[${number}-${number}\\] \\|")
require_report(data)
require_machine()
string(JSON rounds LENGTH "${report}" results troupe samples_per_second)
if(NOT rounds EQUAL 2)
  message(FATAL_ERROR "${JSON} has ${rounds} rounds; a smoke run of bench_data has 2")
endif()
