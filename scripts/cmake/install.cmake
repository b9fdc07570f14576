# Files installed by `cmake --install`: the binary with manual pages, completions and a unit of systemd, the worker
# library, its headers, a CMake package and a pkg-config file. The installed tree can be moved: no file contains the
# installation prefix. Components are packages (package.cmake).
include(CMakePackageConfigHelpers)

install(TARGETS elastictrain RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT binary)
install(TARGETS elastictrain_shared EXPORT elastictrain-targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/train/include/elastictrain
                  ${PROJECT_SOURCE_DIR}/supervisor/policy/include/elastictrain DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        COMPONENT development
        FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")

install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/.github/CHANGELOG.md
        DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT binary)
# Not with the permissions of the checkout, which depend on the umask of who made it.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/configs ${PROJECT_SOURCE_DIR}/scripts/hpc
        DESTINATION ${CMAKE_INSTALL_DATADIR}/elastictrain COMPONENT binary
        PATTERN "*.sh" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
install(FILES ${CMAKE_CURRENT_LIST_DIR}/elastictrain@.service DESTINATION lib/systemd/user COMPONENT binary)

# Written by the binary itself, so that they say what it does.
install(CODE "
  set(share \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share\")
  function(et_write)
    execute_process(COMMAND \"$<TARGET_FILE:elastictrain>\" \${ARGN} COMMAND_ERROR_IS_FATAL ANY)
  endfunction()
  function(et_write_completion shell file)
    get_filename_component(folder \"\${share}/\${file}\" DIRECTORY)
    file(MAKE_DIRECTORY \"\${folder}\")
    et_write(completion \${shell} OUTPUT_FILE \"\${share}/\${file}\")
  endfunction()
  et_write(man \"\${share}/man\")
  et_write_completion(bash bash-completion/completions/elastictrain)
  set(zsh_folder site-functions)
  if(\"\${CMAKE_INSTALL_PREFIX}\" STREQUAL /usr)
    set(zsh_folder vendor-completions)  # where Debian's zsh looks
  endif()
  et_write_completion(zsh zsh/\${zsh_folder}/_elastictrain)
  et_write_completion(fish fish/vendor_completions.d/elastictrain.fish)
" COMPONENT binary)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/elastictrain)
install(EXPORT elastictrain-targets NAMESPACE elastictrain:: DESTINATION ${package_folder}
        COMPONENT development)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/elastictrain-config.cmake.in
  ${PROJECT_BINARY_DIR}/package/elastictrain-config.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/elastictrain-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/elastictrain-config.cmake
  ${PROJECT_BINARY_DIR}/package/elastictrain-config-version.cmake DESTINATION ${package_folder}
  COMPONENT development)

# pkg-config derives the prefix from the location of the file itself.
file(RELATIVE_PATH PREFIX_FROM_PKGCONFIG /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${CMAKE_CURRENT_LIST_DIR}/elastictrain.pc.in ${PROJECT_BINARY_DIR}/package/elastictrain.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/elastictrain.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
        COMPONENT development)

# What the Python wheel carries inside of its package; only `cmake --install --component python` installs it.
install(PROGRAMS $<TARGET_FILE:elastictrain> DESTINATION elastictrain/bin COMPONENT python EXCLUDE_FROM_ALL)
install(PROGRAMS $<TARGET_FILE:elastictrain_shared> DESTINATION elastictrain/lib RENAME libelastictrain.so
        COMPONENT python EXCLUDE_FROM_ALL)

include(${CMAKE_CURRENT_LIST_DIR}/package.cmake)
