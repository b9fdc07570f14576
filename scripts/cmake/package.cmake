# Debian packages by `cpack -G DEB` (scripts/package.sh): the binary, the worker library, its headers, and the debug
# information of both. Names of functions stay in the binary and the library, so that the stacks of a hung worker can be
# read on any host.
set(debug_folder lib/debug/usr)
if(NOT ELASTICTRAIN_SANITIZE AND CMAKE_OBJCOPY)
  install(FILES $<TARGET_FILE:elastictrain>.debug DESTINATION ${debug_folder}/bin COMPONENT symbols EXCLUDE_FROM_ALL)
  install(FILES $<TARGET_FILE:elastictrain_shared>.debug DESTINATION ${debug_folder}/${CMAKE_INSTALL_LIBDIR}
          COMPONENT symbols EXCLUDE_FROM_ALL)
endif()
foreach(component library development symbols)
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION share/doc/elastictrain-${component} COMPONENT ${component}
          EXCLUDE_FROM_ALL)
endforeach()

set(CPACK_COMPONENTS_ALL binary library development symbols)
set(CPACK_PACKAGE_CONTACT "The authors of elastictrain <elastictrain@localhost>")
set(CPACK_PACKAGE_VENDOR "elastictrain")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "launch and supervise elastic data-parallel training")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)  # xz takes a minute for the debug information

# Which versions of which libraries: dpkg-shlibdeps asks the symbols that the files use.
foreach(component BINARY LIBRARY)
  set(CPACK_DEBIAN_${component}_PACKAGE_SHLIBDEPS ON)
endforeach()
set(CPACK_DEBIAN_BINARY_PACKAGE_NAME elastictrain)
set(CPACK_DEBIAN_BINARY_PACKAGE_RECOMMENDS openssh-client)
set(CPACK_DEBIAN_BINARY_DESCRIPTION "launch and supervise elastic data-parallel training
 One binary that launches training, supervises it, and changes its size while it runs.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libelastictrain)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_DESCRIPTION "library of workers of elastictrain
 Loaded by training programs that elastictrain launches.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libelastictrain-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libelastictrain (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "headers of the library of workers of elastictrain
 For C and C++ programs that train, and for policies in C++.")
set(CPACK_DEBIAN_SYMBOLS_PACKAGE_NAME elastictrain-dbgsym)
set(CPACK_DEBIAN_SYMBOLS_PACKAGE_SECTION debug)
set(CPACK_DEBIAN_SYMBOLS_DESCRIPTION "debug information of elastictrain
 For debuggers and for stacks with line numbers.")
include(CPack)
