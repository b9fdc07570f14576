# et_compile_by_folder(target [BYTES n]): the sources of one folder are compiled together, up to n bytes
# (ELASTICTRAIN_UNIT_BYTES) at a time. Most of a file's compile time is its headers, so larger units make a build from
# nothing faster and one after a change slower: 200,000 bytes need 0.77 of the processor time of 60,000, and up to 1.4 GB.
# Names in anonymous namespaces are therefore unique within a folder.
# et_compile_fast(target): -O1 in release builds, for code that waits for files, sockets and processes: -O2 costs a fifth
# more compile time there and gains nothing.
function(et_compile_fast target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1>)
endfunction()

option(ELASTICTRAIN_UNITY "Compile the sources of a folder together" ON)
set(ELASTICTRAIN_UNIT_BYTES 200000 CACHE STRING "Bytes of sources of one folder that are compiled together")

function(et_compile_by_folder target)
  if(NOT ELASTICTRAIN_UNITY)
    return()
  endif()
  cmake_parse_arguments(T "" "BYTES" "" ${ARGN})
  if(NOT T_BYTES)
    set(T_BYTES ${ELASTICTRAIN_UNIT_BYTES})
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    if(NOT source MATCHES "\\.cc$")
      continue()
    endif()
    get_filename_component(path ${source} ABSOLUTE)
    get_filename_component(folder ${path} DIRECTORY)
    file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${folder})
    string(MAKE_C_IDENTIFIER ${folder} folder)
    file(SIZE ${path} bytes)
    math(EXPR filled "${filled_${folder}} + ${bytes}")
    math(EXPR unit "${unit_${folder}} + 0")
    if(filled GREATER T_BYTES AND NOT "${filled_${folder}}" STREQUAL "")
      math(EXPR unit "${unit} + 1")
      set(filled ${bytes})
    endif()
    set(filled_${folder} ${filled})
    set(unit_${folder} ${unit})
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP "${folder}_${unit}")
  endforeach()
endfunction()
