// Purpose: sweep.toml, the search over a program's parameters that `elastictrain sweep` makes, read and checked as
// strictly as a run's config. Pure.
//
// Errors: every mistake, one per line, each with file:line:column and, for a name, what was probably meant.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "heuristics/sweep/search_space.h"
#include "heuristics/sweep/stop_rule.h"

namespace elastictrain::cli {

struct SweepFile {
  std::string name;     // trials are the jobs NAME-1, NAME-2, …
  std::string cluster;  // empty: as other commands find it
  std::string config;   // of each trial, from the directory of the file; empty: none
  // Further words for `elastictrain submit`; {lr} stands for the value of the parameter lr, {trial} for
  // the name of the trial.
  std::vector<std::string> arguments;
  std::string metric;        // what the program notes; or
  std::string pattern;       // a regular expression for the lines of rank 0, whose first group is the value
  std::uint64_t trials = 0;  // random draws; 0: the whole grid
  std::uint64_t seed = 1;
  std::vector<heuristics::sweep::Parameter> space;
  heuristics::sweep::StopRule rule;
  std::vector<std::string> program;   // that decides instead of the rule
  std::uint64_t timeout_ms = 10'000;  // for its answer
};

inline constexpr std::uint64_t kMostTrials = 1000;

struct SweepFileError {
  std::vector<std::string> messages;
};

std::variant<SweepFile, SweepFileError> read_sweep_file(std::string_view text, const std::string& file_name);

struct SweepTrial {
  std::string name;
  heuristics::sweep::Assignment values;
  std::vector<std::string> words;  // for `elastictrain submit`, without those for the name and the cluster
};

// The same file gives the same trials.
std::vector<SweepTrial> trials_of(const SweepFile& file);

}  // namespace elastictrain::cli
