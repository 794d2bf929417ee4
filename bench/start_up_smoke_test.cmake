# Runs start_up.py briefly: it must end with 0, print a row for everything that this machine has, and
# write its JSON. No time is judged.
#   cmake -D PYTHON=... -D BUILD=... -D JSON=... -P start_up_smoke_test.cmake
cmake_minimum_required(VERSION 3.23)
include(${CMAKE_CURRENT_LIST_DIR}/smoke_report.cmake)
run_smoke(${PYTHON} ${CMAKE_CURRENT_LIST_DIR}/start_up.py --build ${BUILD})
require_success()

set(timed "troupe --help" "troupe run, 1 x /bin/true" "group of 4 ready, troupe run"
          "group of 4 ready, started by hand")
set(with_memory "examples/linear_regression, first step" "examples/mnist, first step")
if(NOT err MATCHES "left out")
  list(APPEND timed "group, Gloo")
  list(APPEND with_memory "import torch")
endif()
foreach(row IN LISTS timed)
  require_rows("\\| ${row} +\\| ${range} +\\|")
endforeach()
foreach(row IN LISTS with_memory)
  require_rows("\\| ${row} +\\| ${range} +\\| [0-9. ]*\\| ${range} +\\|")
endforeach()
require_report(start_up)
require_machine()
