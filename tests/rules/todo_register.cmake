# Checks that TODO.md and the TODO(T-nnn) marks in the code name the same items.
#   cmake -D SOURCE=<root> -P todo_register.cmake
cmake_minimum_required(VERSION 3.23)

file(STRINGS ${SOURCE}/TODO.md lines REGEX "^- T-[0-9][0-9][0-9] ")
set(listed "")
foreach(line IN LISTS lines)
  string(REGEX MATCH "T-[0-9][0-9][0-9]" item "${line}")
  if(item IN_LIST listed)
    message(FATAL_ERROR "TODO.md lists ${item} twice")
  endif()
  list(APPEND listed ${item})
  if(NOT line MATCHES " -- done when ")
    message(FATAL_ERROR "TODO.md: ${item} does not say when it is done")
  endif()
endforeach()

foreach(folder core net options tensors summaries cluster cli data hooks distributed strategies servers train estimator
        launcher examples bench cmake)
  file(GLOB_RECURSE files RELATIVE ${SOURCE} ${SOURCE}/${folder}/*)
  foreach(file IN LISTS files)
    file(STRINGS ${SOURCE}/${file} marks REGEX "(TODO|FIXME)")
    foreach(mark IN LISTS marks)
      string(REGEX MATCH "TODO\\((T-[0-9][0-9][0-9])\\)" found "${mark}")
      set(item "${CMAKE_MATCH_1}")  # the next match overwrites it
      if(mark MATCHES "TODO\\(|FIXME" AND NOT item IN_LIST listed)
        message(FATAL_ERROR "${file}: \"${mark}\" is no item of TODO.md")
      endif()
    endforeach()
  endforeach()
endforeach()
message(STATUS "TODO register: code and TODO.md agree")
