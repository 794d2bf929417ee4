# Install and export: find_package(troupe) gives troupe::troupe. Headers keep their repository paths
# under include/troupe/, so "hooks/hooks.h" is spelled the same in the tree and installed; among themselves
# they say "troupe/hooks/hooks.h".
include(CMakePackageConfigHelpers)

get_property(libraries GLOBAL PROPERTY TROUPE_LIBRARIES)
install(TARGETS ${libraries} troupe EXPORT troupe_targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET troupe_tool)
  install(TARGETS troupe_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(CODE "set(SOURCE [[${PROJECT_SOURCE_DIR}]])
set(STAGED [[${PROJECT_BINARY_DIR}/installed_headers]])
set(FOLDERS core net options tensors summaries cluster cli data hooks distributed strategies servers train estimator)")
install(SCRIPT cmake/stage_headers.cmake)
install(DIRECTORY ${PROJECT_BINARY_DIR}/installed_headers/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/troupe
        FILES_MATCHING PATTERN "*.h")

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/troupe)
install(EXPORT troupe_targets NAMESPACE troupe:: DESTINATION ${config_dir} FILE troupeTargets.cmake)
configure_package_config_file(cmake/troupeConfig.cmake.in ${PROJECT_BINARY_DIR}/troupeConfig.cmake
                              INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/troupeConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/troupeConfig.cmake ${PROJECT_BINARY_DIR}/troupeConfigVersion.cmake
              cmake/troupe_precompile.cmake
        DESTINATION ${config_dir})
