// Purpose: the reason why a program cannot be started, as a shell gives it: not found (127) or not executable (126),
// itself or the interpreter that its first line names, with where it was looked for and what to write instead.
//
// Asks the file system of this host. Thread: any. Errors: none; a program that seems to be fine gives no answer.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace elastictrain::launcher {

inline constexpr int kStatusNotFound = 127;
inline constexpr int kStatusNotExecutable = 126;

struct MissingProgram {
  int exit_status = 0;  // kStatusNotFound or kStatusNotExecutable; 0: its directory is not there
  std::string text;
};

// `program` is the first word of the command. `environment`: "NAME=value", where PATH is looked up. `directory`: where
// the program starts; empty: the current one.
std::optional<MissingProgram> find_missing_program(const std::string& program,
                                                   const std::vector<std::string>& environment,
                                                   const std::string& directory);

// The file that would be started; empty: there is none.
std::string find_program(const std::string& program, const std::vector<std::string>& environment,
                         const std::string& directory);

}  // namespace elastictrain::launcher
