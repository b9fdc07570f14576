// Purpose: reads what a failed program wrote to TORCHELASTIC_ERROR_FILE (torch's @record decorator does), as lines for
// people. Any text is accepted; JSON in torch's form is parsed.
//
// Thread: any; reads a file of bounded size. Errors: no lines if there is no file or it is empty.
#pragma once

#include <string>
#include <vector>

namespace elastictrain::launcher {

std::vector<std::string> read_error_file(const std::string& path);

}  // namespace elastictrain::launcher
