# cmake -D SOURCE=<root> -D WORK=<folder> -P find_torch.cmake: cmake/torch.cmake and cmake/engines.cmake with LibTorches of all
# kinds, which are folders with a TorchConfig.cmake and no library: what can be used is found, what cannot is refused by name.
cmake_minimum_required(VERSION 3.24)
file(REMOVE_RECURSE ${WORK})

# torch(<name> <version> <lines that TorchConfig.cmake begins with> [<definition of torch_cpu>...])
function(torch name version lines)
  set(folder ${WORK}/${name})
  file(WRITE ${folder}/share/cmake/Torch/TorchConfigVersion.cmake "set(PACKAGE_VERSION ${version})\nset(PACKAGE_VERSION_COMPATIBLE TRUE)\n")
  file(WRITE ${folder}/share/cmake/Torch/TorchConfig.cmake "set(TORCH_INSTALL_PREFIX ${folder})
set(TORCH_INCLUDE_DIRS ${folder}/include)
${lines}
if(NOT TARGET torch)
  foreach(name c10 torch_cpu torch)
    add_library(\${name} SHARED IMPORTED)
    set_target_properties(\${name} PROPERTIES IMPORTED_LOCATION ${folder}/lib/lib\${name}.so INTERFACE_LINK_LIBRARIES \"c10;caffe2::mkl\")
  endforeach()
  set_target_properties(torch_cpu PROPERTIES INTERFACE_COMPILE_DEFINITIONS \"${ARGN}\")
  if(EXISTS ${folder}/lib/libtorch_cuda.so)
    add_library(torch_cuda SHARED IMPORTED)
    set_target_properties(torch_cuda PROPERTIES IMPORTED_LOCATION ${folder}/lib/libtorch_cuda.so INTERFACE_LINK_LIBRARIES \"torch::cudart;c10\"
                          INTERFACE_COMPILE_DEFINITIONS USE_C10D_NCCL)
  endif()
endif()
set(Torch_FOUND TRUE)
")
endfunction()

# expect(<what is tried> <name of a torch, or a prefix> <text, a regular expression> [<lines of CMakeLists.txt>])
function(expect what prefix pattern)
  set(project ${WORK}/projects/${what})
  file(WRITE "${project}/CMakeLists.txt" "cmake_minimum_required(VERSION 3.24)
project(try LANGUAGES CXX)
set(CMAKE_FIND_USE_CMAKE_SYSTEM_PATH OFF)  # not the one of this machine
set(CMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH OFF)
${ARGN}
include(${SOURCE}/cmake/torch.cmake)
troupe_find_torch()
if(NOT Torch_FOUND)
  troupe_say_why_no_torch()
endif()
troupe_torch_needs(need)
troupe_torch_identity(identity)
get_target_property(options torch INTERFACE_LINK_OPTIONS)
get_target_property(libraries torch_cpu INTERFACE_LINK_LIBRARIES)
message(STATUS \"found \${identity}, C++\${need}, options \${options}, libraries \${libraries}.\")
include(${SOURCE}/cmake/engines.cmake)
")
  execute_process(COMMAND ${CMAKE_COMMAND} -S "${project}" -B "${project}/build" "-DCMAKE_PREFIX_PATH=${WORK}/${prefix}" -DTROUPE_MPI=OFF
                  RESULT_VARIABLE ignored OUTPUT_VARIABLE text ERROR_VARIABLE text)
  string(REGEX REPLACE "[ \n]+" " " text "${text}")
  if(NOT text MATCHES "${pattern}")
    message(SEND_ERROR "${what}: \"${pattern}\" was expected in:\n${text}")
  endif()
endfunction()

torch(plain 2.6.0 "" USE_DISTRIBUTED)
expect("a plain one" plain "found LibTorch 2.6.0 without CUDA, C\\+\\+17, options SHELL:[^ ]+ -lstdc\\+\\+ [^;]*, libraries c10[.]")
expect("an engine that it lacks" plain "engine gloo: no, LibTorch was built without Gloo -- engine nccl: no, LibTorch was built without it")
torch(newer 2.15.0 "")
expect("one that needs C++20" newer "found LibTorch 2.15.0 without CUDA, C\\+\\+20")
expect("none at all" nothing "Troupe needs LibTorch, which was not found. Fix: one of .*cmake_prefix_path.*unpacked archive.*apt-get install libtorch-dev")
torch(broken 2.6.0 "set(Torch_FOUND FALSE)\nset(Torch_NOT_FOUND_MESSAGE \"its MKL is gone\")\nreturn()")
expect("one that says why it is not to be used" broken "LibTorch is there, but cannot be used: [^ ]*/broken/share/cmake/Torch/TorchConfig.cmake its MKL is gone")
torch(old_abi 2.6.0 "set(TORCH_CXX_FLAGS -D_GLIBCXX_USE_CXX11_ABI=0)")
expect("the old ABI" old_abi "\\(2.6.0\\) was compiled for the C\\+\\+ library's old ABI .*Fix: use pip's torch 2.7 or later, or the archive whose name has cxx11-abi")
torch(mixed 2.6.0 "set(TORCH_INSTALL_PREFIX ${WORK}/elsewhere)")
expect("headers of one, library of another" mixed "Torch's headers are in [^ ]*/elsewhere, its library is [^ ]*/mixed/lib/libtorch_cpu.so: two LibTorches")

# With CUDA: Torch's own files end here without a toolkit, and make a target "dummy" where there is no protobuf.
set(looks_for_cuda "if(NOT TARGET torch::cudart)\n  message(FATAL_ERROR \"cannot find the CUDA libraries\")\nendif()
if(NOT TARGET protobuf::libprotobuf)\n  add_library(dummy INTERFACE)\nendif()")
torch(cuda 2.15.0 "${looks_for_cuda}")
foreach(file libtorch_cuda.so libnccl.so.2)
  file(WRITE ${WORK}/cuda/lib/${file} "NCCL version 2.30.7+cuda13.3\n")
endforeach()
foreach(file cuda_runtime_api.h crt/host_config.h torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp)
  file(WRITE ${WORK}/cuda/include/${file} "")
endforeach()
set(nccl_h "#define NCCL_MAJOR 2\n#define NCCL_MINOR 30\n#define NCCL_PATCH 7\n")
file(WRITE ${WORK}/cuda/include/nccl.h "${nccl_h}")
expect("CUDA without a toolkit" cuda "found LibTorch 2.15.0 with CUDA, C\\+\\+20, options .*;LINKER:--allow-shlib-undefined, libraries c10[.].*engine nccl: yes"
       "add_library(dummy INTERFACE)")
string(REPLACE "PATCH 7" "PATCH 3" other_h "${nccl_h}")
file(WRITE ${WORK}/cuda/include/nccl.h "${other_h}")
expect("headers of another NCCL" cuda "engine nccl: no, LibTorch's NCCL is 2.30.7, the headers in [^ ]*/cuda/include are of 2.30.3")
file(WRITE ${WORK}/nvidia/nccl/include/nccl.h "${other_h}")  # where Python's packages have it: LibTorch's own
expect("headers beside LibTorch" cuda "engine nccl: yes")

file(WRITE ${WORK}/cuda/include/torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp "#include <nv/none>\n")
expect("headers that are incomplete" cuda "engine nccl: no, LibTorch has it, CUDA's headers were incomplete")

# A parent project that has found Torch with its own CUDA keeps what it links.
expect("a parent's own" plain "libraries c10;caffe2::mkl[.]" "add_library(caffe2::mkl INTERFACE IMPORTED)\nfind_package(Torch REQUIRED)")

# MPI's programs without its headers, as `apt-get install openmpi-bin` leaves them: FindMPI would end configuring.
file(WRITE ${WORK}/mpicxx "#!/bin/sh\nexit 1\n")
file(CHMOD ${WORK}/mpicxx PERMISSIONS OWNER_READ OWNER_EXECUTE)
expect("MPI without its headers" plain "engine mpi: no, mpi.h was missing when Troupe was built \\(Debian: libopenmpi-dev\\)"
       "set(TROUPE_MPI ON CACHE BOOL \"\" FORCE)\nset(TROUPE_MPICXX ${WORK}/mpicxx)")
message(STATUS "LibTorches of all kinds: as they should be")
