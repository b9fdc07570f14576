# et_compile_by_folder(target [FILES n]): the sources of one folder are compiled together, up to n (12) at a time. Most of
# a file's compile time is its headers, so a build from nothing takes a third of the time, and one changed file costs
# little more than it alone. Names in anonymous namespaces are therefore unique within a folder.
# et_compile_fast(target): -O1 in release builds, for code that waits for files, sockets and processes: -O2 costs a fifth
# more compile time there and gains nothing.
function(et_compile_fast target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1>)
endfunction()

option(ELASTICTRAIN_UNITY "Compile the sources of a folder together" ON)

function(et_compile_by_folder target)
  if(NOT ELASTICTRAIN_UNITY)
    return()
  endif()
  cmake_parse_arguments(T "" "FILES" "" ${ARGN})
  if(NOT T_FILES)
    set(T_FILES 12)
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    if(NOT source MATCHES "\\.cc$")
      continue()
    endif()
    get_filename_component(folder ${source} ABSOLUTE)
    get_filename_component(folder ${folder} DIRECTORY)
    file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${folder})
    string(MAKE_C_IDENTIFIER ${folder} folder)
    math(EXPR batch "${files_${folder}} + 0" OUTPUT_FORMAT DECIMAL)
    math(EXPR files_${folder} "${batch} + 1")
    math(EXPR batch "${batch} / ${T_FILES}")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP "${folder}_${batch}")
  endforeach()
endfunction()
