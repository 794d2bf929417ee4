# Install and export: find_package(troupe) gives troupe::troupe. The public headers are troupe.h and what it
# includes; each is spelled "troupe/hooks/hooks.h", in the tree and installed.
include(CMakePackageConfigHelpers)

get_property(libraries GLOBAL PROPERTY TROUPE_LIBRARIES)
install(TARGETS ${libraries} troupe EXPORT troupe_targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS troupe_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(CODE "set(SOURCE [[${PROJECT_SOURCE_DIR}]])\nset(TO [[${CMAKE_INSTALL_INCLUDEDIR}]])")
install(SCRIPT cmake/install_headers.cmake)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/troupe)
install(EXPORT troupe_targets NAMESPACE troupe:: DESTINATION ${config_dir} FILE troupeTargets.cmake)
troupe_torch_identity(TROUPE_BUILT_WITH)
configure_package_config_file(cmake/troupeConfig.cmake.in ${PROJECT_BINARY_DIR}/troupeConfig.cmake
                              INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/troupeConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/troupeConfig.cmake ${PROJECT_BINARY_DIR}/troupeConfigVersion.cmake
              cmake/torch.cmake cmake/troupe_precompile.cmake
        DESTINATION ${config_dir})

# pkg-config. A group, because static libraries of ours use each other; their order is CMake's affair.
list(TRANSFORM libraries PREPEND -l OUTPUT_VARIABLE TROUPE_PC_LIBS)
list(JOIN TROUPE_PC_LIBS " " TROUPE_PC_LIBS)
set(TROUPE_PC_CFLAGS "")
foreach(folder IN LISTS TORCH_INCLUDE_DIRS)
  if(NOT folder STREQUAL "/usr/include")
    string(APPEND TROUPE_PC_CFLAGS " -isystem \"${folder}\"")
  endif()
endforeach()
# As cmake/torch.cmake has it for CMake's programs.
set(TROUPE_PC_OTHERS "-ltorch -ltorch_cpu -lc10 -lboost_program_options")
if(TARGET torch_cuda)
  string(PREPEND TROUPE_PC_OTHERS "-Wl,--allow-shlib-undefined -Wl,--push-state,--no-as-needed -ltorch_cuda -lc10_cuda -Wl,--pop-state ")
endif()
get_filename_component(torch_folder ${TROUPE_LIBTORCH_FILE} DIRECTORY)
if(NOT torch_folder IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
  string(PREPEND TROUPE_PC_OTHERS "-L\"${torch_folder}\" -Wl,-rpath,\"${torch_folder}\" ")
endif()
if(TROUPE_HAS_ONNX)
  string(APPEND TROUPE_PC_OTHERS " -lonnx -lonnx_proto -lprotobuf")
endif()
if(TROUPE_HAS_MPI)
  foreach(library IN LISTS MPI_CXX_LIBRARIES)
    get_filename_component(folder ${library} DIRECTORY)
    string(APPEND TROUPE_PC_OTHERS " \"${library}\" -Wl,-rpath,\"${folder}\"")
  endforeach()
endif()
file(RELATIVE_PATH TROUPE_PC_UP /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" TROUPE_PC_UP ${TROUPE_PC_UP})
configure_file(cmake/troupe.pc.in ${PROJECT_BINARY_DIR}/troupe.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/troupe.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# The build folder is a package, too, for what `troupe new` wrote with its tool.
export(TARGETS ${libraries} troupe troupe_warnings troupe_sanitize NAMESPACE troupe::
       FILE ${PROJECT_BINARY_DIR}/troupeTargets.cmake)
foreach(file torch troupe_precompile)
  configure_file(cmake/${file}.cmake ${PROJECT_BINARY_DIR}/${file}.cmake COPYONLY)
endforeach()
