// Purpose: `run --resume`, and the same command repeated while the run's supervisor is dead: which run is meant,
// whether it can be taken over, and with which configuration.
//
// Reads the state directory. Thread: any. Errors: returned as values that name the run and say what to do.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands/run/run_plan.h"
#include "cli/commands/run_flags.h"
#include "supervisor/run_record.h"

namespace elastictrain::cli {

// Stored by `run` in RunRecord::config.
struct RecordedRun {
  RunConfig config;
  std::string directory;                                       // where the run was started
  std::vector<std::pair<std::string, std::string>> variables;  // passed on to workers
  std::vector<std::string> typed = {};                         // the command line, for reports; without values of -x
};
std::string encode_recorded(const RecordedRun& run);
Result<RecordedRun> decode_recorded(const std::string& text);

// The recorded configuration of the run in this directory; nothing if there is no record or it is unusable.
std::optional<RecordedRun> find_recorded(const std::string& directory);

// Keys that must not change while a run continues: the program and its hosts. One line per difference.
std::vector<std::string> find_differences(const RunConfig& before, const RunConfig& now);

struct RunChoice {
  RunConfig config;
  PlanInputs inputs;
  RunStart start = RunStart::kFresh;
  std::vector<std::string> typed = {};
};
struct ChoiceFailed {
  std::string text;
  int status = 0;
};

// Determines the run from the command line and the records of earlier runs. If the configuration comes from a record,
// changes the current directory to the recorded one. `loaded` is what the command line and its file give, where the
// caller has read them: a pipe gives its text only once.
std::variant<RunChoice, ChoiceFailed> choose_run(const RunFlags& flags, const std::vector<std::string>& program,
                                                 std::optional<Loaded> loaded = std::nullopt);

// checkpoint.directory of this run, with its name in the place of each "{run}"; empty: none. Jobs of a cluster often
// have the same file, so a directory without "{run}" is there that of a subdirectory for each, unless checkpoint.adopt
// asks for the directory itself.
std::string checkpoint_directory_of(const RunConfig& config, const std::string& run);

}  // namespace elastictrain::cli
