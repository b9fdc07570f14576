// Purpose: `run --resume`, and the same command again while the run's supervisor is dead: which run is meant, whether
// it can be taken over, and with which configuration.
//
// Reads the state directory. Thread: any. Failure: values that say which run, and what to do.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands/run_flags.h"
#include "cli/commands/run_plan.h"
#include "supervisor/run_record.h"

namespace elastictrain::cli {

// What `run` keeps in RunRecord::config.
struct RecordedRun {
  RunConfig config;
  std::string directory;                                       // where the run was started
  std::vector<std::pair<std::string, std::string>> variables;  // that were passed on to workers
};
std::string encode_recorded(const RecordedRun& run);
Result<RecordedRun> decode_recorded(const std::string& text);

// What the run of this directory was told; nothing where there is no record (any more), or one of no use.
std::optional<RecordedRun> find_recorded(const std::string& directory);

// What must not change under a run that goes on: the program and its hosts. One line for each difference.
std::vector<std::string> find_differences(const RunConfig& before, const RunConfig& now);

struct RunChoice {
  RunConfig config;
  PlanInputs inputs;
  RunStart start = RunStart::kFresh;
};
struct ChoiceFailed {
  std::string text;
  int status = 0;
};

// From the command line and what earlier runs left behind to the run that is meant. Changes the current directory to
// the recorded one where the configuration comes from a record.
std::variant<RunChoice, ChoiceFailed> choose_run(const RunFlags& flags, const std::vector<std::string>& program);

}  // namespace elastictrain::cli
