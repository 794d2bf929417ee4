# Which collective engines beside our own ring this build can have: Gloo and NCCL by way of LibTorch's
# c10d, MPI by way of the system's library. For each: TROUPE_<engine>_LACKS is what is missing, as a
# clause for messages; where that is "", TROUPE_HAS_<engine> is 1, and there are the include folders and
# libraries that its one file needs; else it is 0.
option(TROUPE_MPI "Build the MPI engine where the system has an MPI library" ON)
include(CheckCXXSourceCompiles)

# troupe_compare_nccl(): sets TROUPE_NCCL_LACKS unless the nccl.h that was found is of LibTorch's NCCL, which is in its folder or inside
# libtorch_cuda (archives), and says its version there.
function(troupe_compare_nccl)
  set(lines "")
  if(TROUPE_NCCL_INCLUDE)
    file(STRINGS ${TROUPE_NCCL_INCLUDE}/nccl.h lines REGEX "^#define NCCL_(MAJOR|MINOR|PATCH) ")
  endif()
  list(TRANSFORM lines REPLACE "[^0-9]+" "")
  list(JOIN lines "." of_header)
  set(of_torch "unknown")
  foreach(library libnccl.so.2 libtorch_cuda.so)
    if(of_torch STREQUAL "unknown" AND EXISTS ${TORCH_INSTALL_PREFIX}/lib/${library})
      file(STRINGS ${TORCH_INSTALL_PREFIX}/lib/${library} line REGEX "^NCCL version [0-9.]+" LIMIT_COUNT 1)
      string(REGEX MATCH "[0-9]+[.][0-9]+[.][0-9]+" version "${line}")
      if(version)
        set(of_torch ${version})
      endif()
    endif()
  endforeach()
  if(NOT of_header VERSION_EQUAL of_torch)
    set(TROUPE_NCCL_LACKS "LibTorch's NCCL is ${of_torch}, the headers in ${TROUPE_NCCL_INCLUDE} are of ${of_header}" PARENT_SCOPE)
  endif()
endfunction()

# What LibTorch was built with, as its targets say.
get_target_property(torch_has torch_cpu INTERFACE_COMPILE_DEFINITIONS)
if(TARGET torch_cuda)
  get_target_property(torch_cuda_has torch_cuda INTERFACE_COMPILE_DEFINITIONS)
  list(APPEND torch_has ${torch_cuda_has})
endif()

# Gloo's library is libtorch_cpu's affair: inside it (pip, archives), or needed by it (Debian). Linked a second time, a process
# would have it twice, which ends in "double free". Gloo's headers are in no pip package; those of another Gloo may fit, so they are tried.
set(TROUPE_GLOO_LACKS "")
if(NOT "USE_C10D_GLOO" IN_LIST torch_has)
  set(TROUPE_GLOO_LACKS "LibTorch was built without Gloo")
else()
  find_path(TROUPE_GLOO_INCLUDE gloo/algorithm.h HINTS ${TORCH_INCLUDE_DIRS})
  if(NOT TROUPE_GLOO_INCLUDE)
    set(TROUPE_GLOO_LACKS "LibTorch has it, Gloo's headers were missing when Troupe was built (Debian: libgloo-dev)")
  elseif(NOT TROUPE_LIBTORCH_PACKAGE)  # else both are of one distribution; trying takes 5 s
    set(CMAKE_REQUIRED_LIBRARIES torch)
    set(CMAKE_REQUIRED_DEFINITIONS -DUSE_C10D_GLOO)
    set(CMAKE_REQUIRED_INCLUDES ${TROUPE_GLOO_INCLUDE})
    check_cxx_source_compiles("
      #include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
      int main() { return c10d::ProcessGroupGloo::createDefaultDevice() ? 0 : 1; }" TROUPE_GLOO_FITS)
    unset(CMAKE_REQUIRED_LIBRARIES)
    unset(CMAKE_REQUIRED_DEFINITIONS)
    unset(CMAKE_REQUIRED_INCLUDES)
    if(NOT TROUPE_GLOO_FITS)
      set(TROUPE_GLOO_LACKS "Gloo's headers in ${TROUPE_GLOO_INCLUDE} do not fit LibTorch ${Torch_VERSION}")
    endif()
  endif()
endif()

# nccl.h decides how large the objects are that LibTorch's code fills, so it comes from beside this LibTorch, where Python's packages
# have it and CUDA's headers, or is of the version that LibTorch has: with 2.15's LibTorch and CUDA 13.0's nccl.h, ncclConfig_t is 80
# bytes for us and 96 for LibTorch.
set(TROUPE_NCCL_LACKS "")
if(NOT "USE_C10D_NCCL" IN_LIST torch_has)
  set(TROUPE_NCCL_LACKS "LibTorch was built without it")
else()
  file(GLOB beside "${TORCH_INSTALL_PREFIX}/../nvidia/*/include")
  find_path(TROUPE_NCCL_INCLUDE nccl.h PATHS ${beside} NO_DEFAULT_PATH)
  find_path(TROUPE_CUDA_INCLUDE cuda_runtime_api.h PATHS ${beside} NO_DEFAULT_PATH)
  if(NOT TROUPE_NCCL_INCLUDE)
    find_path(TROUPE_NCCL_INCLUDE nccl.h HINTS ${TORCH_INCLUDE_DIRS} ${CUDAToolkit_INCLUDE_DIRS})
    troupe_compare_nccl()
  endif()
  find_path(TROUPE_CUDA_INCLUDE cuda_runtime_api.h HINTS ${TORCH_INCLUDE_DIRS} ${CUDAToolkit_INCLUDE_DIRS} /usr/local/cuda/include)
  # What CUDA's own headers include of the compiler's: Triton's package, which torch needs, has it where CUDA's lack it.
  find_path(TROUPE_CUDA_CRT_INCLUDE crt/host_config.h NO_DEFAULT_PATH
            PATHS ${beside} ${TORCH_INSTALL_PREFIX}/../triton/backends/nvidia/include)
  find_path(TROUPE_CUDA_CRT_INCLUDE crt/host_config.h HINTS ${CUDAToolkit_INCLUDE_DIRS} /usr/local/cuda/include)
  if(NOT TROUPE_NCCL_INCLUDE OR NOT TROUPE_CUDA_INCLUDE)
    set(TROUPE_NCCL_LACKS "LibTorch has it, headers of NCCL or of CUDA were missing when Troupe was built")
  elseif(NOT TROUPE_NCCL_LACKS)
    set(CMAKE_REQUIRED_LIBRARIES torch)
    set(CMAKE_REQUIRED_DEFINITIONS -DUSE_C10D_NCCL)
    # All of them: CUDA 12's packages have a folder each, and the toolkit's of another CUDA may be in /usr/local/include.
    set(CMAKE_REQUIRED_INCLUDES ${TORCH_INCLUDE_DIRS} ${TROUPE_NCCL_INCLUDE} ${TROUPE_CUDA_INCLUDE} ${beside})
    if(TROUPE_CUDA_CRT_INCLUDE)
      list(APPEND CMAKE_REQUIRED_INCLUDES ${TROUPE_CUDA_CRT_INCLUDE})
    endif()
    set(TROUPE_NCCL_INCLUDES ${CMAKE_REQUIRED_INCLUDES})
    set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)  # what it needs at the end, libtorch_cuda knows
    check_cxx_source_compiles("#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>" TROUPE_NCCL_COMPILES)
    foreach(setting REQUIRED_LIBRARIES REQUIRED_DEFINITIONS REQUIRED_INCLUDES TRY_COMPILE_TARGET_TYPE)
      unset(CMAKE_${setting})
    endforeach()
    if(NOT TROUPE_NCCL_COMPILES)
      set(TROUPE_NCCL_LACKS "LibTorch has it, CUDA's headers were incomplete when Troupe was built (pip: nvidia-cuda-crt, nvidia-cuda-cccl)")
    endif()
  endif()
endif()

# The C interface, through the component of the one language that this project has.
set(TROUPE_MPI_LACKS "no MPI library was found when Troupe was built (Debian: libopenmpi-dev)")
if(TROUPE_MPI)
  # FindMPI ends configuring where a compiler wrapper names folders of headers that are not installed (openmpi-bin alone).
  set(mpi_has_headers TRUE)
  find_program(TROUPE_MPICXX NAMES ${MPI_CXX_COMPILER} mpicxx mpic++)
  if(TROUPE_MPICXX)
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/mpi_header.cpp "#include <mpi.h>\n")
    execute_process(COMMAND ${TROUPE_MPICXX} -E ${CMAKE_CURRENT_BINARY_DIR}/mpi_header.cpp RESULT_VARIABLE failed
                    OUTPUT_QUIET ERROR_QUIET)
    if(failed)
      set(mpi_has_headers FALSE)
      set(TROUPE_MPI_LACKS "mpi.h was missing when Troupe was built (Debian: libopenmpi-dev)")
    endif()
  endif()
  if(mpi_has_headers)
    set(MPI_CXX_SKIP_MPICXX ON)
    find_package(MPI QUIET COMPONENTS CXX)
    if(MPI_CXX_FOUND)
      set(TROUPE_MPI_LACKS "")
    endif()
  endif()
else()
  set(TROUPE_MPI_LACKS "Troupe was built with TROUPE_MPI=OFF")
endif()

foreach(engine GLOO NCCL MPI)
  string(TOLOWER ${engine} name)
  if(TROUPE_${engine}_LACKS)
    set(TROUPE_HAS_${engine} 0)
    message(STATUS "engine ${name}: no, ${TROUPE_${engine}_LACKS}")
  else()
    set(TROUPE_HAS_${engine} 1)
    message(STATUS "engine ${name}: yes")
  endif()
endforeach()

# troupe_use_gloo(<target>): Gloo's headers for a target with a file that uses it.
function(troupe_use_gloo target)
  if(TROUPE_HAS_GLOO)
    target_include_directories(${target} SYSTEM PRIVATE ${TROUPE_GLOO_INCLUDE})
  endif()
endfunction()
