# troupe_precompile(<target> [HEADER name]): the target's sources find torch/torch.h
# parsed already, which is most of the time that a small program takes to compile. The first such target
# of a build pays for the header once; all others share it. Costs 0.6 GB of disk in the build folder;
# docs/building.md has the figures. Targets that compile at another level of optimisation name a
# header of their own: g++ 12.2 crashes where the two differ.
option(TROUPE_PCH "Parse torch/torch.h once for all programs that include it" ON)

function(troupe_precompile target)
  if(NOT TROUPE_PCH)
    return()
  endif()
  cmake_parse_arguments(arg "" "HEADER" "" ${ARGN})
  if(NOT arg_HEADER)
    set(arg_HEADER troupe_torch_header)
  endif()
  if(NOT TARGET ${arg_HEADER})
    set(source ${PROJECT_BINARY_DIR}/${arg_HEADER}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "/* What the precompiled header belongs to. */\n")
    # For g++ an empty file in assembler: for one in C++ it would instantiate all that the header has pending, which takes 4 s.
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "$<$<CXX_COMPILER_ID:GNU>:-xassembler>")
    add_library(${arg_HEADER} OBJECT ${source})
    target_link_libraries(${arg_HEADER} PRIVATE torch)
    # The language level must be the users' one, to the letter.
    get_target_property(features troupe::core INTERFACE_COMPILE_FEATURES)
    target_compile_features(${arg_HEADER} PRIVATE ${features})
    target_precompile_headers(${arg_HEADER} PRIVATE <torch/torch.h>)
  endif()
  target_precompile_headers(${target} REUSE_FROM ${arg_HEADER})
endfunction()
