# Finds what Troupe stands on. Configure never touches the network; a missing package ends with the
# one line that installs it.
set(TROUPE_APT_PACKAGES "libtorch-dev libgloo-dev libopenblas0-pthread libboost-dev libboost-program-options-dev \
nlohmann-json3-dev doctest-dev libspdlog-dev zlib1g-dev libpng-dev libjpeg-dev libssl-dev")

macro(troupe_require package)
  find_package(${package} QUIET ${ARGN})
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "Troupe needs ${package}, which was not found. On Debian or Ubuntu:\n"
                        "  apt-get install ${TROUPE_APT_PACKAGES}\n"
                        "Elsewhere put its prefix into CMAKE_PREFIX_PATH.")
  endif()
endmacro()

troupe_require(Threads)
troupe_require(Boost 1.74 COMPONENTS program_options)
troupe_require(nlohmann_json)
troupe_require(spdlog)
troupe_require(OpenSSL)
troupe_require(ZLIB)
troupe_require(JPEG)
troupe_require(PNG)
if(TROUPE_BUILD_TESTS)
  troupe_require(doctest)
endif()

set(TROUPE_CXX_STANDARD 17)
if(TROUPE_TORCH)
  # No version in the call: the headers of Debian's 1.13.1 say 1.13.0. --version and doctor show both.
  troupe_require(Torch)
  execute_process(COMMAND dpkg-query --search ${TORCH_INSTALL_PREFIX}/include/torch/csrc/api/include/torch/version.h
                  OUTPUT_VARIABLE owner ERROR_QUIET)
  string(REGEX MATCH "^[^:]+" owner "${owner}")  # "libtorch-dev: /usr/include/..."
  set(TROUPE_LIBTORCH_PACKAGE "")
  if(owner)
    execute_process(COMMAND dpkg-query --show ${owner} OUTPUT_VARIABLE shown OUTPUT_STRIP_TRAILING_WHITESPACE)
    string(REGEX REPLACE "[ \t]+" " " TROUPE_LIBTORCH_PACKAGE "${shown}")
  endif()
  if(Torch_VERSION VERSION_LESS 1.13)
    message(FATAL_ERROR "Troupe needs LibTorch 1.13 or newer; found ${Torch_VERSION}.")
  endif()
  if(Torch_VERSION VERSION_GREATER_EQUAL 2.13)  # its headers use C++20 from 2.13 on
    set(TROUPE_CXX_STANDARD 20)
  endif()
endif()
if(CMAKE_CXX_STANDARD)  # a preset's wish, for trying the newer language
  set(TROUPE_CXX_STANDARD ${CMAKE_CXX_STANDARD})
endif()
