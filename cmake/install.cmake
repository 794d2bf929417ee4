# Install and export: find_package(troupe) gives troupe::troupe. Headers keep their repository paths
# under include/troupe/, so "hooks/hooks.h" is spelled the same in the tree and installed.
include(CMakePackageConfigHelpers)

get_property(libraries GLOBAL PROPERTY TROUPE_LIBRARIES)
install(TARGETS ${libraries} troupe EXPORT troupe_targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET troupe_tool)
  install(TARGETS troupe_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
foreach(folder core net options tensors summaries cluster cli data hooks distributed strategies servers train estimator)
  install(DIRECTORY ${folder}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/troupe/${folder}
          FILES_MATCHING PATTERN "*.h")
endforeach()
install(FILES troupe.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/troupe)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/troupe)
install(EXPORT troupe_targets NAMESPACE troupe:: DESTINATION ${config_dir} FILE troupeTargets.cmake)
configure_package_config_file(cmake/troupeConfig.cmake.in ${PROJECT_BINARY_DIR}/troupeConfig.cmake
                              INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/troupeConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/troupeConfig.cmake ${PROJECT_BINARY_DIR}/troupeConfigVersion.cmake
              cmake/troupe_precompile.cmake
        DESTINATION ${config_dir})
