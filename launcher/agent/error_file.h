// Purpose: reads what a program that ended badly wrote to TORCHELASTIC_ERROR_FILE (torch's @record decorator does), as
// lines for people. Any text will do; JSON of torch's shape is taken apart.
//
// Thread: any; reads a file of bounded size. Failure: no lines where there is no file or nothing in it.
#pragma once

#include <string>
#include <vector>

namespace elastictrain::launcher {

std::vector<std::string> read_error_file(const std::string& path);

}  // namespace elastictrain::launcher
