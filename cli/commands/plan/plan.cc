// `elastictrain plan`: time and cost of a job for each number of workers, and the number to choose. The figures come
// from a table, an earlier run's journal, or a short measuring run.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "cli/chart/plan_drawing.h"
#include "cli/commands/command.h"
#include "cli/commands/exit_code.h"
#include "cli/commands/plan/size_plan.h"
#include "cli/commands/run/live_run.h"
#include "cli/commands/run/resume.h"
#include "cli/commands/run_client.h"
#include "cli/commands/run_flags.h"
#include "cli/config/text.h"
#include "cli/output/terminal.h"
#include "heuristics/scavenger/scavenger_policy.h"
#include "supervisor/control/control_protocol.h"

namespace elastictrain::cli {
namespace {

constexpr const char* kCommand = "plan";
constexpr std::uint64_t kMeasuringInterval_ms = 250;  // between two decisions of the policy that measures, at most
constexpr const char* kMeasuringPolicy = "scavenger";
constexpr const char* kDetails = R"(
Where the figures come from:
  elastictrain plan job.toml                          a short run of the job, which changes its size while it trains
  elastictrain plan --journal NAME|FILE [job.toml]    an earlier run, whose policy should have varied the size
  elastictrain plan --profile FILE [job.toml]         a table:

    workers,batch,step_s                              batch: samples of one worker in a step
    1,32,0.131                                        step_s: seconds of a step
    4,32,0.164                                        or the same names in a list of JSON objects,
    8,32,0.215                                        or what plan --json printed

The measuring run stops when all sizes are measured (or by Ctrl-C). It neither writes nor reads checkpoints. Prices come
from [cost], all other settings from [policy.scavenger]. A config gives sizes, batch, hosts and prices.

Exit status: 0 done; 1 no size meets the deadline or the budget (the plan is shown); 64 wrong usage; 66 a file
cannot be read; 69 too little was measured, or no such run; 78 a mistake in the config or the table. If the measuring
run fails: its own status.
)";

struct PlanFlags {
  RunFlags run;
  std::string journal;
  std::string profile;
  std::optional<double> noise_scale;
  std::string svg;
  bool json = false;
};

struct Measured {
  JobProfile profile;
  std::optional<RunPlan> plan;  // from the config, if there is one
};

// The result, or the exit status if the error is already reported.
template <class T>
using OrStatus = std::variant<T, int>;

int config_status(const Error& error) {
  std::cerr << "elastictrain plan: " << error.message << "\n";
  return status_of_start(error);
}

// --- The measuring run

// The user's job as configured, without its own sizing policy and without output that it would leave behind.
void make_measuring(RunConfig& config) {
  config.name = config.name.empty() ? "plan-" + std::to_string(::getpid()) : config.name.substr(0, 59) + "-plan";
  config.checkpoint = {};
  config.log.show_ranks = "none";
  config.policy.name = kMeasuringPolicy;
  config.policy.library.clear();
  config.policy.argument.clear();
  config.policy.program.clear();
  config.policy.cool_down_ms = 0;
  config.policy.hysteresis = 0;
  const std::uint64_t set = config.policy.interval_ms;
  config.policy.interval_ms = set == 0 ? kMeasuringInterval_ms : std::min(set, kMeasuringInterval_ms);
  config.policy.parameters[kMeasuringPolicy]["follow"] = false;
  config.policy.parameters["stragglers"]["action"] = std::string("none");
}

bool is_measured(const core::Record& record) {
  const auto* decided = record.as<core::record::Decided>();
  return decided != nullptr && decided->code == heuristics::kMeasured;
}

// The sizes are those of the config. Discovered hosts are those that the run finds.
OrStatus<Measured> measure(RunConfig config, const PlanInputs& inputs) {
  make_measuring(config);
  RunChoice choice{std::move(config), inputs, RunStart::kFresh};
  auto plan = make_plan(choice.config, choice.inputs);
  if (!plan.ok()) {
    std::cerr << "elastictrain plan: " << plan.error().message << "\n";
    return status_of_start(plan.error());
  }
  Measured measured;
  LiveRun run(kCommand, choice, *plan);
  bool done = false;
  run.watch([&](const core::Record& record) {
    add_record(measured.profile, record);
    if (is_measured(record) && !std::exchange(done, true)) run.stop();
  });
  if (const int status = run.run(); status != kExitSuccess) {
    std::cerr << "elastictrain plan: the measuring run failed or was stopped (status " << status
              << "); no plan was made\n";
    return status;
  }
  if (!done) {
    std::cerr << "elastictrain plan: the job ended before all sizes were measured; the plan uses the sizes that were. "
                 "A longer job, or fewer --steps, measures more\n";
  }
  measured.plan = std::move(*plan);
  return measured;
}

// --- From the command line to a plan

Result<std::string> journal_path(const std::string& name) {
  if (std::filesystem::is_regular_file(name)) return name;
  const auto found = find_run(name);
  if (found.ok()) return *found + "/" + control::kJournalName;
  return Error{ErrorCode::kUnavailable, name + " is not a file, and " + found.error().message};
}

OrStatus<RunConfig> load(const PlanFlags& flags, const std::vector<std::string>& program,
                         const std::optional<RunConfig>& recorded) {
  auto loaded = load_from_flags(flags.run, program, process_environment(), recorded);
  if (auto* config = std::get_if<LoadedConfig>(&loaded)) return std::move(config->config);
  const auto& error = std::get<ConfigError>(loaded);
  std::cerr << error_text(kCommand, error) << "\n";
  return exit_status_of(error);
}

OrStatus<Measured> gather(const PlanFlags& flags, const RunConfig& config, const std::string& journal) {
  const auto environment = process_environment();
  const auto here = current_directory();
  if (!here.ok()) return config_status(here.error());
  const PlanInputs inputs{environment, *here, kCommand, environment};
  if (journal.empty() && flags.profile.empty()) return measure(config, inputs);
  Measured measured;
  auto profile = journal.empty() ? read_profile_file(flags.profile) : profile_of_journal(journal);
  if (!profile.ok()) return config_status(profile.error());
  measured.profile = std::move(*profile);
  if (flags.run.config_file.empty() && flags.run.sizes.empty()) return measured;
  auto plan = make_plan(config, inputs);
  if (!plan.ok()) return config_status(plan.error());
  measured.plan = std::move(*plan);
  return measured;
}

std::size_t columns() {
  constexpr std::size_t kMax = 100;
  return surface_of(STDOUT_FILENO).is_terminal ? std::min(terminal_width(STDOUT_FILENO), kMax) : kMax;
}

int show(const PlanFlags& flags, const std::string& title, const SizePlan& plan) {
  if (!flags.svg.empty()) {
    std::ofstream file(flags.svg);
    if (!(file << plan_svg(plan.curve, title)).flush()) {
      return config_status({ErrorCode::kIo, flags.svg + " cannot be written"});
    }
  }
  std::cout << (flags.json ? render_plan_json(plan) : render_plan(plan, columns(), locale_has_unicode()));
  if (!std::cout.flush()) return kExitFailure;
  if (plan.curve.choice.limit_met) return kExitSuccess;
  return complain(kCommand, {ErrorCode::kRefused, plan.curve.choice.reason.text});
}

int plan_command(PlanFlags flags, const std::vector<std::string>& program) {
  flags.run.starts_nothing = !flags.journal.empty() || !flags.profile.empty();
  std::string journal;
  std::optional<RunConfig> recorded;
  if (!flags.journal.empty()) {
    const auto path = journal_path(flags.journal);
    if (!path.ok()) return complain(kCommand, path.error());
    journal = *path;
    const auto run = find_recorded(std::filesystem::absolute(journal).parent_path().string());
    if (run && flags.run.config_file.empty()) recorded = run->config;
  }
  auto config = load(flags, program, recorded);
  if (const int* status = std::get_if<int>(&config)) return *status;
  const RunConfig& given = std::get<RunConfig>(config);
  auto measured = gather(flags, given, journal);
  if (const int* status = std::get_if<int>(&measured)) return *status;
  const auto& [profile, run_plan] = std::get<Measured>(measured);
  const auto plan = make_size_plan(profile, given, run_plan, flags.noise_scale);
  if (!plan.ok()) return complain(kCommand, plan.error());
  const std::string title = !journal.empty() ? journal : !flags.profile.empty() ? flags.profile : flags.run.config_file;
  return show(flags, title.empty() ? kCommand : title, *plan);
}

// A flag that stands for a key of [policy.scavenger].
Argument setting_argument(const std::shared_ptr<PlanFlags>& flags, const char* name, const char* key, const char* type,
                          const char* help) {
  const auto keep = [flags, name, key](const std::string& text) {
    flags->run.settings.push_back({key, text, std::string(name) + " " + text});
    return Status();
  };
  return value(name, type, help, keep).in("Plan");
}

// `source`: the flag and its value, for messages.
void set_goal(PlanFlags& flags, const char* goal, const std::string& key, const std::string& limit,
              const std::string& source) {
  flags.run.settings.push_back({"policy.scavenger.goal", goal, source});
  flags.run.settings.push_back({"policy.scavenger." + key, limit, source});
}

Argument deadline_argument(const std::shared_ptr<PlanFlags>& flags) {
  const auto use = [flags](const std::string& text) -> Status {
    const auto limit = parse_duration_ms(text);
    if (!limit.ok()) return wrong_usage("--deadline: " + limit.error().message);
    const std::string limit_s = std::to_string(static_cast<double>(*limit) / 1e3);
    set_goal(*flags, "deadline", "deadline_s", limit_s, "--deadline " + text);
    return {};
  };
  return value("--deadline", "TIME", "the cheapest that ends within this time", use).in("Plan").instead_of({"--goal"});
}

Argument budget_argument(const std::shared_ptr<PlanFlags>& flags) {
  const auto use = [flags](const std::string& text) {
    set_goal(*flags, "budget", "budget", text, "--budget " + text);
    return Status();
  };
  return value("--budget", "COST", "the fastest that costs at most this", use)
      .in("Plan")
      .instead_of({"--goal", "--deadline"});
}

Argument noise_scale_argument(const std::shared_ptr<PlanFlags>& flags) {
  const auto use = [flags](const std::string& text) -> Status {
    flags->noise_scale = parse_number(text).value_or(0);
    if (flags->noise_scale > 0) return {};
    return wrong_usage("--noise-scale: '" + text + "' is not a number of samples above 0");
  };
  return value("--noise-scale", "N", "noise scale of the gradients in samples, if it was not measured", use).in("Plan");
}

std::vector<Argument> plan_arguments(const std::shared_ptr<PlanFlags>& flags) {
  std::vector<Argument> arguments = {
      value("--journal", "NAME|FILE", "take the figures from that run's journal", flags->journal).in("Plan"),
      value("--profile", "FILE", "take the figures from a table", flags->profile).in("Plan").instead_of({"--journal"}),
      setting_argument(flags, "--goal", "policy.scavenger.goal", "GOAL",
                       "fastest, cheapest, or knee: where the curve of cost over time bends"),
      deadline_argument(flags),
      budget_argument(flags),
      setting_argument(flags, "--search", "policy.scavenger.search", "full|partial|universal",
                       "what to measure: all sizes, the ends and the middles (default), or one size"),
      setting_argument(flags, "--steps", "policy.scavenger.steps_per_point", "N", "steps to measure at each size"),
      setting_argument(flags, "--points", "policy.scavenger.sizes", "N",
                       "number of sizes in a full search; 0: all (default)"),
      setting_argument(flags, "--samples", "policy.samples_total", "N", "samples of the whole job"),
      noise_scale_argument(flags),
      value("--svg", "FILE", "also draw the plan into this file", flags->svg).in("Plan"),
      flag("--json", "print one JSON object instead of the drawing", flags->json).in("Plan")};
  for (Argument& argument : run_arguments({flags, &flags->run})) arguments.push_back(std::move(argument));
  return arguments;
}

}  // namespace

Command make_plan(Invocation& invocation) {
  const auto flags = std::make_shared<PlanFlags>();
  const auto plan = [&invocation, flags] { return plan_command(*flags, invocation.program); };
  return {kCommand,
          "time and cost of a job for each number of workers, and the best choice",
          kGroupTrain,
          plan_arguments(flags),
          always(invocation, plan),
          kDetails,
          true};
}

}  // namespace elastictrain::cli
