# cmake -D SOURCE=<root> -D BUILD=<build> -D WORK=<folder> -P consumer.cmake
cmake_minimum_required(VERSION 3.23)

function(run)
  cmake_parse_arguments(arg "" "EXPECT;OUTPUT" "COMMAND" ${ARGN})
  execute_process(COMMAND ${arg_COMMAND} RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT code EQUAL arg_EXPECT)
    message(FATAL_ERROR "${arg_COMMAND}\nended with ${code}, expected ${arg_EXPECT}:\n${text}")
  endif()
  set(${arg_OUTPUT} "${text}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
run(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/installed EXPECT 0 OUTPUT ignored)
file(COPY ${SOURCE}/template/ DESTINATION ${WORK}/template)
run(COMMAND ${CMAKE_COMMAND} -S ${WORK}/template -B ${WORK}/build -DCMAKE_BUILD_TYPE=Release
            -DCMAKE_PREFIX_PATH=${WORK}/installed EXPECT 0 OUTPUT ignored)
run(COMMAND ${CMAKE_COMMAND} --build ${WORK}/build EXPECT 0 OUTPUT ignored)

# As shipped it lists its open TODOs and exits with 2.
run(COMMAND ${WORK}/build/my_training EXPECT 2 OUTPUT text)
foreach(number 2 3 4 5 6 7)
  if(NOT text MATCHES "TODO ${number}: ")
    message(FATAL_ERROR "TODO ${number} is not listed in:\n${text}")
  endif()
endforeach()
run(COMMAND ${WORK}/build/my_training --help EXPECT 0 OUTPUT text)
if(NOT text MATCHES "--hidden-units")
  message(FATAL_ERROR "--help does not show the template's own flag:\n${text}")
endif()
