# What `./dev package` puts into a .deb beside what cmake/install.cmake installs anywhere.
set(doc_dir ${CMAKE_INSTALL_DATADIR}/doc/troupe)
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME troupe)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
    WORLD_READ WORLD_EXECUTE)
set(TROUPE_PACKAGE_MAINTAINER "Troupe maintainers <troupe@troupe.example>" CACHE STRING
    "Name and address of who makes the package")
set(CPACK_PACKAGE_CONTACT "${TROUPE_PACKAGE_MAINTAINER}")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "custom, distributed training loops in C++ on LibTorch")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
    "A class of hooks is trained unchanged in one process, in a group of worker
processes, or in workers beside parameter servers. Holds the library, its
headers, and the tool that writes, starts and checks training programs.")

# Libraries of the programs that a user builds: static ones of ours, so what those were compiled against.
set(depends libgloo-dev libopenblas0-pthread libboost-dev libboost-program-options-dev nlohmann-json3-dev libspdlog-dev
            zlib1g-dev libjpeg-dev libpng-dev libssl-dev g++ cmake "make | ninja-build")
set(torch_depends libtorch-dev)
if(TROUPE_LIBTORCH_PACKAGE MATCHES "^libtorch-dev ([0-9]+)[.]([0-9]+)")
  math(EXPR next "${CMAKE_MATCH_2} + 1")
  set(torch_depends "libtorch-dev (>= ${CMAKE_MATCH_1}.${CMAKE_MATCH_2})" "libtorch-dev (<< ${CMAKE_MATCH_1}.${next}~)")
endif()
if(TROUPE_HAS_MPI)
  list(APPEND depends libopenmpi-dev)
endif()
if(TROUPE_HAS_ONNX)
  list(APPEND depends libonnx-dev libprotobuf-dev)
endif()
list(JOIN depends ", " depends)
list(JOIN torch_depends ", " torch_depends)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "${torch_depends}, ${depends}")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # of the tool
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "doctest-dev, pkg-config")

# Debian's own papers. The date of the entry is that of the packaging, or SOURCE_DATE_EPOCH's.
string(TIMESTAMP year %Y UTC)
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/package/changelog @ONLY CONTENT "troupe (@PROJECT_VERSION@) unstable; urgency=medium

  * Release @PROJECT_VERSION@; CHANGELOG.md in this folder says what is new.

 -- @TROUPE_PACKAGE_MAINTAINER@  @date@
")
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/package/copyright @ONLY CONTENT
"Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: troupe

Files: *
Copyright: @year@ The Troupe authors
License: Apache-2.0
 The full text of the license is in /usr/share/common-licenses/Apache-2.0 on Debian.
")
find_program(TROUPE_GZIP gzip REQUIRED)
execute_process(COMMAND ${TROUPE_GZIP} -9nf ${PROJECT_BINARY_DIR}/package/changelog)
install(FILES ${PROJECT_BINARY_DIR}/package/changelog.gz ${PROJECT_BINARY_DIR}/package/copyright CHANGELOG.md
        DESTINATION ${doc_dir})
install(DIRECTORY docs/ DESTINATION ${doc_dir}/docs FILES_MATCHING PATTERN "*.md" PATTERN "images/*" PATTERN "site" EXCLUDE)
# What these pages refer to.
install(FILES README.md CONTRIBUTING.md DESTINATION ${doc_dir})
install(DIRECTORY examples DESTINATION ${doc_dir})
include(CPack)

# Everything that is installed, and nothing else: not the tests.
get_property(libraries GLOBAL PROPERTY TROUPE_LIBRARIES)
add_custom_target(troupe_package DEPENDS ${libraries} troupe_tool)
