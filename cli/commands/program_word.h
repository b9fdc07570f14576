// Purpose: decides which word of a command line begins the program, so that `run -n 2 python3 train.py` needs no "--".
// Reads the file system and $PATH. Thread: any.
#pragma once

#include <string>

namespace elastictrain::cli {

// By its name, whether or not it is there.
bool is_script(const std::string& word);

// A program is a file that can be executed, a name found on $PATH, or a script (.py, .sh) whether or not it can be
// executed. Options, files that end in .toml, and other files that exist are none: those are configuration files.
bool begins_program(const std::string& word);

}  // namespace elastictrain::cli
