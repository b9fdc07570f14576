// `elastictrain sweep`: a search over a program's parameters, whose trials are jobs of a cluster.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>

#include "cli/commands/cluster/sweep_run.h"
#include "cli/commands/command.h"
#include "cli/commands/exit_code.h"
#include "cli/commands/run/live_run.h"
#include "cli/config/load.h"
#include "cli/output/printable.h"
#include "cli/output/terminal.h"
#include "supervisor/protocol/json_text.h"

namespace elastictrain::cli {
namespace {

constexpr const char* kDetails = R"(
  elastictrain sweep sweep.toml               submits the trials, shows them, stops what is not worth its slots
  elastictrain sweep sweep.toml --dry-run     the trials
  elastictrain sweep sweep.toml --cancel      ends those that are left

    name = "rates"                            # the trials are the jobs rates-1, rates-2, …
    arguments = ["-n", "1:4", "--", "python3", "train.py", "--lr={lr}", "--width={width}"]
                                              # {trial} is the name of the trial: --out=out/{trial}
    metric = "accuracy"                       # what the program notes: run.note("accuracy", 0.93); or
    # pattern = 'val loss (\S+)'              # a regular expression for the output of rank 0
    goal = "max"                              # or "min"
    trials = 12                               # random draws; without it the whole grid
    seed = 1

    [parameters]
    lr = {low = 1e-4, high = 0.1, scale = "log"}     # also whole = true
    width = [64, 128, 256]

    [stop]
    rule = "halving"                          # or "median", or "none"
    first = 1                                 # reports after which a trial is judged first
    factor = 3                                # one trial in so many goes on, and to so many times the reports
    # program = ["python3", "my_rule.py"]     # judges instead of a rule; timeout_ms = 10000 for each answer

The cluster decides which trials have slots, in which turns, and lets those that are left grow onto what the stopped ones
had. Ctrl-C leaves the trials to the cluster; the same command goes on with them. A trial that has checkpoints can be
suspended between its turns (checkpoint.directory in config).

Exit status: 0 all trials have ended, and one that did not fail has reported a value; 1 none has; 64 wrong usage; 66 the
file cannot be read; 69 no such cluster, or it does not answer; 73 the sweep's own file cannot be written; 78 a mistake in
the file, or a sweep, job or run of these names is another one. If no trial is accepted: the status of submit.
)";

struct SweepFlags {
  std::string file;
  std::string cluster;
  bool cancel = false;
  bool dry_run = false;
  bool json = false;
};

int fail_sweep(const std::string& text, int status) {
  std::cerr << "elastictrain sweep: " << text << "\n";
  return status;
}

int show_trials(const std::vector<SweepTrial>& trials) {
  for (const SweepTrial& trial : trials) {
    std::cout << "elastictrain submit --name " << trial.name << " " << shell_text(trial.words) << "\n";
  }
  return std::cout.flush() ? kExitSuccess : kExitFailure;
}

int show_end(const SweepRun& run, const SweepFlags& flags, SweepShows shows) {
  const SweepView sweep = run.view();
  if (flags.json) {
    std::cout << json_text(sweep_json(sweep)) << "\n";
  } else if (shows != SweepShows::kTable) {
    std::cout << render_sweep(sweep, room_of(STDOUT_FILENO));
  }
  if (!std::cout.flush()) return kExitFailure;
  if (best_trial(sweep)) return kExitSuccess;
  const bool all_failed =
      std::all_of(sweep.trials.begin(), sweep.trials.end(), [](const auto& one) { return one.trial.has_failed; });
  return fail_sweep((all_failed ? "every trial has failed" : "no trial has reported a number for " + sweep.metric) +
                        "; what they wrote: elastictrain logs " + sweep.name + "-1",
                    kExitFailure);
}

int run_sweep(const SweepFlags& flags) {
  const auto text = read_config_file(flags.file);
  if (!text.ok()) return fail_sweep(text.error().message, kExitNoInput);
  auto read = read_sweep_file(*text, flags.file);
  if (const auto* mistakes = std::get_if<SweepFileError>(&read)) {
    for (const std::string& one : mistakes->messages) std::cerr << one << "\n";
    return kExitConfig;
  }
  SweepFile& file = std::get<SweepFile>(read);
  std::vector<SweepTrial> trials = trials_of(file);
  if (flags.dry_run) return show_trials(trials);
  const auto cluster = find_cluster(flags.cluster.empty() ? file.cluster : flags.cluster);
  if (!cluster.ok()) return fail_sweep(cluster.error().message, kExitUnavailable);
  auto state = SweepState::open(file, trials);
  if (!state.ok())
    return fail_sweep(state.error().message, state.error().code == ErrorCode::kIo ? kExitCannotCreate : kExitConfig);
  const SweepPlace place{*cluster, std::filesystem::absolute(flags.file).parent_path().string()};
  SweepRun run(std::move(file), std::move(trials), std::move(*state), place);
  if (flags.cancel) return run.cancel();
  const SweepShows shows = flags.json                          ? SweepShows::kNothing
                           : surface_of(STDOUT_FILENO).redraws ? SweepShows::kTable
                                                               : SweepShows::kEvents;
  const int status = run.run(shows);
  return status == kExitSuccess ? show_end(run, flags, shows) : status;
}

}  // namespace

Command make_sweep(Invocation& invocation) {
  const auto flags = std::make_shared<SweepFlags>();
  return {"sweep",
          "try many settings of a program on a cluster, and stop early what is not worth its slots",
          kGroupCluster,
          {word("file", "SWEEP.toml", "the search", flags->file), cluster_flag(flags->cluster),
           flag("--dry-run", "print the trials, submit nothing", flags->dry_run),
           flag("--cancel", "end the trials that are left", flags->cancel),
           flag("--json", "at the end everything, as one JSON object", flags->json)},
          [flags, &invocation]() -> Status {
            if (flags->file.empty()) return wrong_usage("name the file: elastictrain sweep sweep.toml");
            invocation.action = [flags] { return run_sweep(*flags); };
            return {};
          },
          kDetails};
}

}  // namespace elastictrain::cli
