// Purpose: facts about the program on a host, for `elastictrain check`: whether it would start there.
//
// Asks the file system of this host; starts nothing. Thread: any. Errors: none; they are the answer.
#pragma once

#include <string>
#include <vector>

namespace elastictrain::launcher {

struct ProgramFacts {
  std::string problem;       // why it cannot be started; empty: nothing is known to be wrong
  int exit_status = 0;       // kStatusNotFound or kStatusNotExecutable
  std::string missing_file;  // what it would not find once it has started, and why
  std::string
      interpreter;  // of a Python program: "/usr/bin/python3.11", or with the version of its virtual environment
};

// `argv`: of a worker; none: nothing is asked about the program. `environment`: a worker's whole one. `directory`:
// where it starts; empty: the current one. `files`: what it reads, relative to that.
ProgramFacts program_facts(const std::vector<std::string>& argv, const std::vector<std::string>& environment,
                           const std::string& directory, const std::vector<std::string>& files);

}  // namespace elastictrain::launcher
