# cmake -D TOOL=<build>/troupe -D WORK=<folder> -P build_folder.cmake: a build folder is a package, too: `troupe new` of its
# tool says where it is, and a program finds headers and libraries there. One that needs no LibTorch header: quick to compile.
cmake_minimum_required(VERSION 3.23)

function(run)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${WORK} RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGN}\nended with ${code}:\n${text}")
  endif()
  set(text "${text}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
run(${TOOL} new mine --from regression)
if(NOT text MATCHES "cmake -B build (-Dtroupe_DIR=[^ ]+) &&")
  message(FATAL_ERROR "`troupe new` does not say where the package is:\n${text}")
endif()
set(package ${CMAKE_MATCH_1})
file(WRITE ${WORK}/CMakeLists.txt [[
cmake_minimum_required(VERSION 3.23)
project(parses LANGUAGES CXX)
find_package(troupe REQUIRED)
if(NOT TARGET troupe::troupe)
  message(FATAL_ERROR "the package has no target troupe::troupe")
endif()
add_executable(parses parses.cpp)
target_link_libraries(parses PRIVATE troupe::cli)
]])
file(WRITE ${WORK}/parses.cpp [[
#include <troupe/cli/options.h>
#include <cstdio>
int main() {
  const char* const words[] = {"parses", "--batch-size", "7"};
  const auto options = troupe::parse_options(3, words);
  std::printf("%d\n", static_cast<int>(options.train.batch_size));
}
]])
run(${CMAKE_COMMAND} -S . -B build ${package})
run(${CMAKE_COMMAND} --build build)
run(${WORK}/build/parses)
if(NOT text STREQUAL "7\n")
  message(FATAL_ERROR "7 was expected, not ${text}")
endif()
