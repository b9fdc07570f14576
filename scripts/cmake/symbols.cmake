# et_keep_debug_apart(target): moves a program's debug information into FILE.debug beside it, where debuggers and
# eu-stack find it by themselves. What is installed, or copied to another host, is a tenth of the size; names of functions
# stay in it, so that stacks can be read there too. A sanitizer's reports need the information in place.
function(et_keep_debug_apart target)
  if(ELASTICTRAIN_SANITIZE OR NOT CMAKE_OBJCOPY)
    return()
  endif()
  add_custom_command(TARGET ${target} POST_BUILD
    COMMAND ${CMAKE_OBJCOPY} --only-keep-debug $<TARGET_FILE:${target}> $<TARGET_FILE:${target}>.debug
    COMMAND ${CMAKE_OBJCOPY} --strip-debug --remove-section=.gnu_debuglink $<TARGET_FILE:${target}>
    COMMAND ${CMAKE_OBJCOPY} --add-gnu-debuglink=$<TARGET_FILE:${target}>.debug $<TARGET_FILE:${target}>
    VERBATIM)
endfunction()

# et_write_link_map(target): the linker writes FILE.map beside the program: which members of which archives are in it. The bill
# of materials of a release is made of it (scripts/release/sbom.py).
function(et_write_link_map target)
  target_link_options(${target} PRIVATE "LINKER:-Map=$<TARGET_FILE:${target}>.map")
endfunction()
