# Whether every planted bug still fits the code that it breaks: they are built by hand alone.
#   cmake -DPATCH=patch -DROOT=. -P planted_applies.cmake
file(GLOB patches ${ROOT}/tests/simulation/planted/*.patch)
foreach(patch ${patches})
  file(STRINGS ${patch} target REGEX "^--- a/")
  string(REPLACE "--- a/" "" target "${target}")
  execute_process(COMMAND ${PATCH} --dry-run --quiet --fuzz=0 --output=/dev/null ${ROOT}/${target} ${patch}
                  RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(failed)
    message(SEND_ERROR "${patch} does not fit ${target}: ${said} Fix: make it anew with diff -u.")
  endif()
endforeach()
