// Purpose: files that others read at any time: each reader finds the old text or the new one as a whole. What is no
// regular file (/dev/stdout, /dev/null, a pipe) is written to and stays what it is; behind a symbolic link its target
// is replaced, not the link. A pipe without a reader is an error, one that is not read for ten seconds too.
//
// Thread: any. Errors: those of the system.
#pragma once

#include <string>
#include <system_error>

namespace elastictrain::cli {

std::error_code write_whole_file(const std::string& path, const std::string& text);
// Only a regular file, or a link to one.
void remove_whole_file(const std::string& path);

}  // namespace elastictrain::cli
