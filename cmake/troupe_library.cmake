# What every library of the project shares: include root, language level, warnings, its alias.
add_library(troupe_warnings INTERFACE)
target_compile_options(troupe_warnings INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor
                                                 -Wold-style-cast $<$<BOOL:${TROUPE_WERROR}>:-Werror>)
# g++ 12 sees overlapping copies in std::string where there are none, in C++20 (gcc bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(troupe_warnings INTERFACE -Wno-restrict)
endif()
# A linker that is faster than the compiler's own, where it is installed.
find_program(TROUPE_MOLD mold)
find_program(TROUPE_LLD ld.lld)
find_program(TROUPE_GOLD ld.gold)
if(TROUPE_MOLD AND NOT (CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12.1))
  set(TROUPE_LINKER -fuse-ld=mold)
elseif(TROUPE_LLD)
  set(TROUPE_LINKER -fuse-ld=lld)
elseif(TROUPE_GOLD)  # part of Debian 12's binutils: 0.5 s for an example, 1.5 s by the default
  set(TROUPE_LINKER -fuse-ld=gold)
endif()
# In a batch no file is the main one, so the compiler takes what a class holds for visible elsewhere.
if(TROUPE_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(troupe_warnings INTERFACE -Wno-subobject-linkage)
endif()
# g++ collects garbage from 128 MiB on, several times a batch, and frees little. Later: 2 to 17 % less time for a batch, up to
# 0.4 GB more memory, the same code to the bit (docs/building.md).
add_compile_options($<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=1000000>)
if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES ccache)  # finds the precompiled header in what is preprocessed, as ccache has to
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endif()
add_library(troupe_sanitize INTERFACE)
if(TROUPE_SANITIZE)
  target_compile_options(troupe_sanitize INTERFACE -fsanitize=${TROUPE_SANITIZE} -fno-omit-frame-pointer -g1)
  target_link_options(troupe_sanitize INTERFACE -fsanitize=${TROUPE_SANITIZE})
endif()

# troupe_cold(<target>): what runs once a step at most. A release build compiles it with -O1, which takes a
# quarter less time (the files of train/ that include LibTorch: 41 s at -O3, 29 s).
function(troupe_cold target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# troupe_library(<target> [COLD]): a library of one folder; troupe_core becomes troupe::core.
function(troupe_library target)
  cmake_parse_arguments(arg "COLD" "" "" ${ARGN})
  if(arg_COLD)
    troupe_cold(${target})
  endif()
  string(REPLACE "troupe_" "troupe::" alias ${target})
  string(REPLACE "troupe_" "" exported ${target})
  add_library(${alias} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${exported} POSITION_INDEPENDENT_CODE ON
                                             UNITY_BUILD ${TROUPE_UNITY} UNITY_BUILD_BATCH_SIZE 0)
  target_compile_features(${target} PUBLIC cxx_std_${TROUPE_CXX_STANDARD})
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${TROUPE_INCLUDE}>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:troupe_warnings> $<BUILD_INTERFACE:troupe_sanitize>)
  set_property(GLOBAL APPEND PROPERTY TROUPE_LIBRARIES ${target})
endfunction()

# troupe_program(<target>): an executable of ours, whose files may name each other by "tests/..." and "bench/...".
function(troupe_program target)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE troupe_warnings troupe_sanitize)
  target_link_options(${target} PRIVATE ${TROUPE_LINKER})
endfunction()
