# Files installed by `cmake --install`: the binary, the worker library, its headers, a CMake package and a pkg-config
# file. The installed tree can be moved: no file contains the installation prefix.
include(CMakePackageConfigHelpers)

install(TARGETS elastictrain RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS elastictrain_shared EXPORT elastictrain-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/train/include/elastictrain
                  ${PROJECT_SOURCE_DIR}/supervisor/policy/include/elastictrain DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")

install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/.github/CHANGELOG.md
        DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/elastictrain)
install(EXPORT elastictrain-targets NAMESPACE elastictrain:: DESTINATION ${package_folder})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/elastictrain-config.cmake.in
  ${PROJECT_BINARY_DIR}/package/elastictrain-config.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/elastictrain-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/elastictrain-config.cmake
  ${PROJECT_BINARY_DIR}/package/elastictrain-config-version.cmake DESTINATION ${package_folder})

# pkg-config derives the prefix from the location of the file itself.
file(RELATIVE_PATH PREFIX_FROM_PKGCONFIG /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${CMAKE_CURRENT_LIST_DIR}/elastictrain.pc.in ${PROJECT_BINARY_DIR}/package/elastictrain.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/elastictrain.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# What the Python wheel carries inside of its package; only `cmake --install --component python` installs it.
install(PROGRAMS $<TARGET_FILE:elastictrain> DESTINATION elastictrain/bin COMPONENT python EXCLUDE_FROM_ALL)
install(PROGRAMS $<TARGET_FILE:elastictrain_shared> DESTINATION elastictrain/lib RENAME libelastictrain.so
        COMPONENT python EXCLUDE_FROM_ALL)
