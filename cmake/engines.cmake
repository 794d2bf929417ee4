# Which collective engines beside our own ring this build can have: Gloo and NCCL by way of LibTorch's
# c10d, MPI by way of the system's library. For each: TROUPE_HAS_<engine>, 1 or 0; where 0,
# TROUPE_<engine>_LACKS is what is missing, as a clause for messages; where 1, the include folders and
# libraries that its one file needs.
option(TROUPE_MPI "Build the MPI engine where the system has an MPI library" ON)
include(CheckCXXSourceCompiles)

# A link, without headers: whether this LibTorch was built with c10d's Gloo group.
set(CMAKE_REQUIRED_LIBRARIES torch_cpu)
check_cxx_source_compiles("
  #include <memory>
  namespace gloo::transport { class Device; }
  namespace c10d { struct ProcessGroupGloo {
    static std::shared_ptr<::gloo::transport::Device> createDefaultDevice();
  }; }
  int main() { return c10d::ProcessGroupGloo::createDefaultDevice() ? 0 : 1; }" TROUPE_TORCH_HAS_GLOO)
unset(CMAKE_REQUIRED_LIBRARIES)
find_path(TROUPE_C10D_INCLUDE torch/csrc/distributed/c10d/ProcessGroupGloo.hpp HINTS ${TORCH_INCLUDE_DIRS})
find_path(TROUPE_GLOO_INCLUDE gloo/algorithm.h HINTS ${TORCH_INCLUDE_DIRS})
find_library(TROUPE_GLOO_LIBRARY gloo)  # inside libtorch_cpu where it is not a package of its own
set(TROUPE_HAS_GLOO 0)
if(NOT TROUPE_TORCH_HAS_GLOO)
  set(TROUPE_GLOO_LACKS "LibTorch was built without Gloo")
elseif(NOT TROUPE_C10D_INCLUDE OR NOT TROUPE_GLOO_INCLUDE)
  set(TROUPE_GLOO_LACKS "Gloo's headers were missing when Troupe was built (Debian: libgloo-dev)")
else()
  set(TROUPE_HAS_GLOO 1)
endif()

# The last is where Python's packages have them beside theirs of LibTorch.
find_path(TROUPE_NCCL_INCLUDE nccl.h HINTS ${TORCH_INCLUDE_DIRS} ${CUDA_INCLUDE_DIRS} ${CUDAToolkit_INCLUDE_DIRS}
          ${TORCH_INSTALL_PREFIX}/../nvidia/nccl/include)
find_path(TROUPE_C10D_NCCL_INCLUDE torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp HINTS ${TORCH_INCLUDE_DIRS})
set(TROUPE_HAS_NCCL 0)
if(NOT TARGET torch_cuda)
  set(TROUPE_NCCL_LACKS "LibTorch was built without CUDA")
elseif(NOT TROUPE_NCCL_INCLUDE OR NOT TROUPE_C10D_NCCL_INCLUDE)
  set(TROUPE_NCCL_LACKS "NCCL's headers were missing when Troupe was built")
else()
  set(TROUPE_HAS_NCCL 1)
endif()

# The C interface, through the component of the one language that this project has.
set(TROUPE_HAS_MPI 0)
set(TROUPE_MPI_LACKS "no MPI library was found when Troupe was built (Debian: libopenmpi-dev)")
if(TROUPE_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI QUIET COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    set(TROUPE_HAS_MPI 1)
  endif()
else()
  set(TROUPE_MPI_LACKS "Troupe was built with TROUPE_MPI=OFF")
endif()

foreach(engine GLOO NCCL MPI)
  string(TOLOWER ${engine} name)
  if(TROUPE_HAS_${engine})
    message(STATUS "engine ${name}: yes")
  else()
    message(STATUS "engine ${name}: no, ${TROUPE_${engine}_LACKS}")
  endif()
endforeach()

# troupe_use_gloo(<target>): headers and library of Gloo for a target with a file that uses it.
function(troupe_use_gloo target)
  if(NOT TROUPE_HAS_GLOO)
    return()
  endif()
  target_include_directories(${target} SYSTEM PRIVATE ${TROUPE_C10D_INCLUDE} ${TROUPE_GLOO_INCLUDE})
  if(TROUPE_GLOO_LIBRARY)
    target_link_libraries(${target} PRIVATE ${TROUPE_GLOO_LIBRARY})
  endif()
endfunction()
