# Finds LibTorch: Debian's package, the folder inside pip's torch, an unpacked archive, conda's or Spack's. Used by this build
# and, installed, by troupeConfig.cmake. Afterwards the target `torch` is what a program needs, and no more:
#  - no CUDA compiler is needed, though this LibTorch may have CUDA. Torch's own files look for a toolkit and end configuring where
#    there is none (Caffe2Config.cmake), unless torch::cudart exists. Linking libtorch_cuda.so takes none of the toolkit's libraries;
#  - RUNPATH of programs is LibTorch's folder. Those of MKL and of CUDA, which its targets add, are folders of other machines;
#  - libstdc++ comes first among the libraries that a program needs: pip's libtorch.so (2.5 to 2.11) exports std::filesystem's
#    functions of a static libstdc++, and remove_all called by way of them ends with SIGSEGV (pytorch issue 133437).
# Where a parent project has found Torch before, its target stays as the parent's own CUDA code needs it, but for the last.

# What libtorch's targets name and no program has to link: headers and libraries are LibTorch's own.
set(TROUPE_TORCH_STAND_INS torch::cudart torch::nvtoolsext caffe2::mkl protobuf::libprotobuf)

# troupe_torch_needs(<standard>): the C++ standard that LibTorch's headers need.
function(troupe_torch_needs standard)
  set(${standard} 17 PARENT_SCOPE)
  if(Torch_VERSION VERSION_GREATER_EQUAL 2.13)  # 2.14 refuses to compile with less
    set(${standard} 20 PARENT_SCOPE)
  endif()
endfunction()

# After troupe_find_torch() without success: ends configuring with Torch's own reason.
function(troupe_say_why_no_torch)
  if(Torch_CONSIDERED_CONFIGS)
    message(FATAL_ERROR "LibTorch is there, but cannot be used:\n  ${Torch_CONSIDERED_CONFIGS}\n"
      "${Torch_NOT_FOUND_MESSAGE}\n${Caffe2_NOT_FOUND_MESSAGE}")
  endif()
  message(FATAL_ERROR "Troupe needs LibTorch, which was not found. Fix: one of\n"
    "  -DCMAKE_PREFIX_PATH=\"$(python3 -c 'import torch; print(torch.utils.cmake_prefix_path)')\"   for the one in pip's torch\n"
    "  -DCMAKE_PREFIX_PATH=/path/to/libtorch                         for an unpacked archive, conda's or Spack's\n"
    "  apt-get install libtorch-dev                                  on Debian or Ubuntu")
endfunction()

# Whom a program that was built with one LibTorch must meet again: the version, and whether it has CUDA.
function(troupe_torch_identity identity)
  set(kind "without CUDA")
  if(TARGET torch_cuda)
    set(kind "with CUDA")
  endif()
  set(${identity} "LibTorch ${Torch_VERSION} ${kind}" PARENT_SCOPE)
endfunction()

# troupe_find_torch([<folder of TorchConfig.cmake>]): looks there last, before the system's folders. A macro, since Torch's variables
# are its caller's.
macro(troupe_find_torch)
  set(troupe_had_torch FALSE)
  if(TARGET torch)
    set(troupe_had_torch TRUE)
  else()
    foreach(stand_in IN LISTS TROUPE_TORCH_STAND_INS)
      if(NOT TARGET ${stand_in})
        add_library(${stand_in} INTERFACE IMPORTED)
      endif()
    endforeach()
  endif()
  # Caffe2, whose targets Torch takes, is looked for apart: from beside Torch, not Debian's.
  set(troupe_prefixes "${CMAKE_PREFIX_PATH}")
  foreach(folder ${Torch_DIR} ${ARGN})
    list(APPEND CMAKE_PREFIX_PATH "${folder}/..")
  endforeach()
  # A relative one means the project that was configured, in a folder of add_subdirectory, too.
  list(TRANSFORM CMAKE_PREFIX_PATH REPLACE "^([^/].*)" "${CMAKE_SOURCE_DIR}/\\1")
  set(troupe_log_level "${CMAKE_MESSAGE_LOG_LEVEL}")
  set(CMAKE_MESSAGE_LOG_LEVEL ERROR)  # warnings of a toolkit and a profiler that nobody needs
  find_package(Torch QUIET)
  set(CMAKE_MESSAGE_LOG_LEVEL "${troupe_log_level}")
  set(CMAKE_PREFIX_PATH "${troupe_prefixes}")
  if(Torch_FOUND)
    troupe_adapt_torch(${troupe_had_torch})
  endif()
endmacro()

function(troupe_adapt_torch had_torch)
  get_target_property(options torch INTERFACE_COMPILE_OPTIONS)
  if("${options} ${TORCH_CXX_FLAGS}" MATCHES "_GLIBCXX_USE_CXX11_ABI=0")
    message(FATAL_ERROR "The LibTorch in ${TORCH_INSTALL_PREFIX} (${Torch_VERSION}) was compiled for the C++ library's old ABI "
      "(_GLIBCXX_USE_CXX11_ABI=0), and no library of this system was.\n"
      "Fix: use pip's torch 2.7 or later, or the archive whose name has cxx11-abi.")
  endif()
  get_target_property(library torch_cpu LOCATION)
  file(REAL_PATH "${library}" real_library)
  file(REAL_PATH "${TORCH_INSTALL_PREFIX}" real_prefix)
  cmake_path(IS_PREFIX real_prefix "${real_library}" is_one)
  if(NOT is_one)
    message(FATAL_ERROR "Torch's headers are in ${TORCH_INSTALL_PREFIX}, its library is ${library}: two LibTorches.\n"
      "Fix: name the folder of the one that is meant in CMAKE_PREFIX_PATH, and leave Torch_DIR and Caffe2_DIR out.")
  endif()
  if(NOT had_torch)
    foreach(target c10 c10_cuda torch_cpu torch_cuda torch)
      if(TARGET ${target})
        get_target_property(libraries ${target} INTERFACE_LINK_LIBRARIES)
        list(REMOVE_ITEM libraries ${TROUPE_TORCH_STAND_INS} libraries-NOTFOUND)  # 2.7's c10 names none
        set_property(TARGET ${target} PROPERTY INTERFACE_LINK_LIBRARIES "${libraries}")
      endif()
    endforeach()
  endif()
  get_target_property(options torch INTERFACE_LINK_OPTIONS)
  if(NOT options MATCHES "-lstdc")
    set(options "SHELL:-Wl,--push-state,--no-as-needed -lstdc++ -Wl,--pop-state")  # as one, so that CMake keeps the order
    if(TARGET torch_cuda)
      # libtorch_cuda finds its libraries by a path of its own, at which GNU's linker does not look: it takes an older NCCL in a folder
      # of the system for the one that is meant, and misses its functions.
      list(APPEND options LINKER:--allow-shlib-undefined)
    endif()
    set_property(TARGET torch APPEND PROPERTY INTERFACE_LINK_OPTIONS ${options})
  endif()
  troupe_torch_needs(standard)
  set_property(TARGET torch APPEND PROPERTY INTERFACE_COMPILE_FEATURES cxx_std_${standard})
endfunction()
