// Purpose: completion of command lines for shells: the scripts, and the candidates for a word.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/commands/command.h"

// Candidates for a word of a command line, for the shells' completion: commands, flags, the values of flags
// that name them, and the names of runs, hosts and jobs where a command takes them. Pure, but for the functions that
// are asked for names. Thread: any. Errors: none; what is not known is left out.

namespace elastictrain::cli {

struct Candidate {
  std::string text;
  std::string help;  // may be empty
};

struct CompletionNames {
  using Names = std::function<std::vector<std::string>()>;
  Names live_runs;
  Names ended_runs;
  std::function<std::vector<std::string>(const std::string& run)> hosts;  // of a run; empty: of the only one
  Names jobs;                                                             // of the cluster that is running
};

// `words`: what was typed after the program's name; the last one, which may be empty, is the one to complete. Nothing
// after "--": the rest of the line is a program's.
std::vector<Candidate> completion_candidates(const std::vector<Command>& commands,
                                             const std::vector<std::string>& words, const CompletionNames& names);

// Completion scripts for shells.

// `shell` is "bash", "zsh" or "fish".
std::string completion_script(const std::string& shell);

}  // namespace elastictrain::cli
