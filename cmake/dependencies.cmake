# Finds what Troupe stands on. Configure never touches the network; a missing package ends with the
# one line that installs it.
set(TROUPE_APT_PACKAGES "libtorch-dev libgloo-dev libopenblas0-pthread libboost-dev libboost-program-options-dev \
nlohmann-json3-dev doctest-dev libspdlog-dev zlib1g-dev libpng-dev libjpeg-dev libssl-dev libxxhash-dev")

# troupe_check_found(<what> <result>)
function(troupe_check_found what result)
  if(NOT result)
    message(FATAL_ERROR "Troupe needs ${what}, which was not found. On Debian or Ubuntu:\n"
                        "  apt-get install ${TROUPE_APT_PACKAGES}\n"
                        "Elsewhere put its prefix into CMAKE_PREFIX_PATH.")
  endif()
endfunction()

macro(troupe_require package)
  find_package(${package} QUIET ${ARGN})
  troupe_check_found(${package} "${${package}_FOUND}")
endmacro()

troupe_require(Boost 1.74 COMPONENTS program_options)
foreach(needed Threads nlohmann_json spdlog OpenSSL ZLIB JPEG PNG)
  troupe_require(${needed})
endforeach()
find_path(TROUPE_XXHASH_INCLUDE xxhash.h)
troupe_check_found(xxhash.h "${TROUPE_XXHASH_INCLUDE}")
if(TROUPE_BUILD_TESTS)
  troupe_require(doctest)
endif()

# The highest of what this code needs, LibTorch's headers need and the parent, or a preset, asks for.
set(TROUPE_CXX_STANDARD 17)
if(TROUPE_LIBTORCH)
  include(cmake/torch.cmake)
  troupe_find_torch()
  if(NOT Torch_FOUND)
    troupe_say_why_no_torch()
  endif()
  if(Torch_VERSION VERSION_LESS 1.13)
    message(FATAL_ERROR "Troupe needs LibTorch 1.13 or newer; found ${Torch_VERSION} in ${TORCH_INSTALL_PREFIX}.")
  endif()
  troupe_torch_needs(TROUPE_CXX_STANDARD)
  # Debian's 1.13.1 says 1.13.0 of itself. --version and doctor show the package, too.
  execute_process(COMMAND dpkg-query --search ${TORCH_INSTALL_PREFIX}/include/torch/csrc/api/include/torch/version.h
                  OUTPUT_VARIABLE owner ERROR_QUIET)
  string(REGEX MATCH "^[^:]+" owner "${owner}")  # "libtorch-dev: /usr/include/..."
  set(TROUPE_LIBTORCH_PACKAGE "")
  if(owner)
    execute_process(COMMAND dpkg-query --show ${owner} OUTPUT_VARIABLE shown OUTPUT_STRIP_TRAILING_WHITESPACE)
    string(REGEX REPLACE "[ \t]+" " " TROUPE_LIBTORCH_PACKAGE "${shown}")
  endif()
  get_target_property(TROUPE_LIBTORCH_FILE torch_cpu LOCATION)
  message(STATUS "LibTorch: ${Torch_VERSION}, ${TORCH_INSTALL_PREFIX}")
endif()
if(CMAKE_CXX_STANDARD GREATER TROUPE_CXX_STANDARD AND NOT CMAKE_CXX_STANDARD EQUAL 98)
  set(TROUPE_CXX_STANDARD ${CMAKE_CXX_STANDARD})
endif()
