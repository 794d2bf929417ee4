# troupe_precompile(<target>): the target's sources find torch/torch.h parsed already, which is most of
# the time that a small program takes to compile. The first such target of a build pays for the header
# once; all others share it. Costs 0.6 GB of disk in the build folder. docs/building.md has the figures.
option(TROUPE_PCH "Parse torch/torch.h once for all programs that include it" ON)

function(troupe_precompile target)
  if(NOT TROUPE_PCH)
    return()
  endif()
  if(NOT TARGET troupe_torch_header)
    set(source ${PROJECT_BINARY_DIR}/troupe_torch_header.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "// What the precompiled header belongs to.\n")
    add_library(troupe_torch_header OBJECT ${source})
    target_link_libraries(troupe_torch_header PRIVATE torch)
    # The language level must be the users' one, to the letter.
    get_target_property(features troupe::core INTERFACE_COMPILE_FEATURES)
    target_compile_features(troupe_torch_header PRIVATE ${features})
    # How well it is optimised is no part of a header; parsing it is faster at a low level.
    target_compile_options(troupe_torch_header PRIVATE -O1)
    target_precompile_headers(troupe_torch_header PRIVATE <torch/torch.h>)
  endif()
  target_precompile_headers(${target} REUSE_FROM troupe_torch_header)
endfunction()
