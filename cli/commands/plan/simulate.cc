// `elastictrain simulate`: the jobs of a trace on one cluster, under sharing policies.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <list>
#include <memory>
#include <optional>
#include <set>

#include "cli/chart/simulation_drawing.h"
#include "cli/commands/command.h"
#include "cli/commands/exit_code.h"
#include "cli/commands/plan/simulation.h"
#include "cli/commands/run_client.h"
#include "cli/config/text.h"
#include "cli/output/simulation_report.h"
#include "cli/output/terminal.h"
#include "cli/traces/traces.h"
#include "supervisor/core/pure/message_text.h"
#include "supervisor/policy/external_sharing.h"

namespace elastictrain::cli {
namespace {

using heuristics::cluster::Cost;
using heuristics::cluster::Trace;
using heuristics::sharing::PolicySpec;

constexpr const char* kSimulate = "simulate";
constexpr double kLoadStep = 8;  // GPUs
constexpr std::uint64_t kMaxGpus = 1'000'000;
constexpr std::uint64_t kAnswer_ms = 60'000;  // of a policy from outside: nobody's slots wait for it here
constexpr const char* kSimulateDetails = R"(
A trace is known by its header (--format otherwise); .gz and .tar.gz are read as they are. Throughput curves: curves.csv
beside a normalised trace, or --curves: such a file, a directory of tables MODEL.csv, or Gavel's JSON. Jobs of a trace
without models take six curves in turn. The directory of a cluster (elastictrain cluster), or its journal, is its jobs
again: arrivals, samples, sizes and measured throughputs, under any policy.

  elastictrain simulate jobs/ --policy srtf,tiresias-l --gpus 64
  elastictrain simulate philly.csv --vc 0e4a51,6c71a0 --curves throughputs_A100 --load 0.9 --csv
  elastictrain simulate ~/.local/state/elastictrain/clusters/lab --policy afs-l,srtf --gpus 16 --cost swap:1

With --journal the past of a cluster is replayed with what was known then: arrivals, starts of workers as long as they
took, lengths and speeds once runs said them. The live cluster's own code decides. Under its own policy the table shows how
true a prediction is; --policy says what another one had made of the same day.

  elastictrain simulate --journal ~/.local/state/elastictrain/clusters/lab --policy worth,afs-l

A --policy with a / or a space in it is a program of your own with its arguments, or a library (.so) with its argument,
as for a cluster (supervisor/policy/SHARING.md). It has a minute for each decision.

  elastictrain simulate jobs/ --policy max-min,"python3 scripts/policies/sharing.py" --gpus 64

Costs of a change: none; swap[:S] new slots count S (10) seconds later and nobody waits; restart[:S] the job makes no
progress for S (30) seconds; muri as in that paper's simulator.

Exit status: 0 done; 64 wrong usage; 66 a file cannot be read; 78 a mistake in a trace, a policy or a
size of the cluster that there is not, or a policy that the trace does not suit.
)";

struct SimulateFlags {
  std::vector<std::string> files;
  std::string journal;
  TraceOptions trace;
  std::string policy_list;
  std::vector<const PolicySpec*> policies;  // those of policy_list
  std::list<PolicySpec> own_policies;       // of these, the user's programs and libraries
  std::string gpus_list;
  std::vector<std::uint32_t> gpus;  // those of gpus_list, or of the hosts
  double load = 0;
  heuristics::cluster::HostOptions hosts;
  Cost cost;
  heuristics::sharing::Settings settings;
  std::uint64_t seed = 1;
  bool lengths_unknown = false;
  double length_error = 0;
  double packed_speed = 0;
  bool csv = false;
  bool json = false;
  std::string jobs_directory;
  std::string svg;
};

// --- Reading the flags

// "python3 ./fair.py 0.5": a program; "./fair.so 0.5": a library and its argument.
policy::Outside outside_of(const std::string& text) {
  policy::Outside outside;
  outside.timeout_ms = kAnswer_ms;
  outside.program = split(text, ' ');
  if (outside.program.front().ends_with(".so")) {
    outside.library = outside.program.front();
    outside.program.erase(outside.program.begin());
    outside.argument = join(std::exchange(outside.program, {}), " ");
  }
  return outside;
}

Status add_own_policy(SimulateFlags& flags, const std::string& text) {
  const policy::Outside outside = outside_of(text);
  if (Status usable = policy::check_outside(outside, flags.seed); !usable.ok()) return usable;
  flags.own_policies.push_back(policy::outside_spec(outside, flags.seed));
  flags.policies.push_back(&flags.own_policies.back());
  return {};
}

Status add_policy(SimulateFlags& flags, const std::string& name) {
  if (name.find_first_of("/ ") != std::string::npos) return add_own_policy(flags, name);
  const PolicySpec* const found = heuristics::sharing::find_sharing_policy(name);
  if (found != nullptr) {
    flags.policies.push_back(found);
    return {};
  }
  std::vector<std::string> names;
  for (const PolicySpec& one : heuristics::sharing::sharing_policies()) names.push_back(one.name);
  const auto meant = closest(name, names);
  return Error{ErrorCode::kInvalid,
               "--policy: there is no policy '" + name + "'" +
                   (meant ? "; did you mean " + *meant + "?" : "; there are " + join(names, ", "))};
}

Status use_policies(SimulateFlags& flags) {
  for (const std::string& name : split(flags.policy_list, ',')) {
    if (const Status good = add_policy(flags, name); !good.ok()) return good;
  }
  return {};
}

Status use_gpus(SimulateFlags& flags) {
  if (flags.gpus_list.empty()) return {};
  for (const std::string& part : split(flags.gpus_list, ',')) {
    const auto number = parse_whole_number(part);
    if (!number || *number == 0 || *number > kMaxGpus) {
      return Error{ErrorCode::kInvalid, "--gpus: '" + part + "' is not a number of GPUs from 1 to 1000000"};
    }
    flags.gpus.push_back(static_cast<std::uint32_t>(*number));
  }
  return {};
}

// "16x8": 16 hosts of 8 slots.
Status use_hosts(SimulateFlags& flags, const std::string& text) {
  const std::size_t cross = text.find('x');
  const auto hosts = parse_whole_number(text.substr(0, cross));
  const auto slots = cross == std::string::npos ? std::nullopt : parse_whole_number(text.substr(cross + 1));
  if (!hosts || !slots || *hosts == 0 || *slots == 0 || *hosts > kMaxGpus || *slots > kMaxGpus / *hosts) {
    return wrong_usage("--hosts: '" + text + "' is not HOSTSxSLOTS, such as 16x8, with at most 1000000 slots in all");
  }
  flags.hosts.hosts = static_cast<std::uint32_t>(*hosts);
  flags.hosts.slots = static_cast<std::uint32_t>(*slots);
  flags.gpus = {flags.hosts.hosts * flags.hosts.slots};
  return {};
}

Status use_part(const char* flag_name, const std::string& text, double& target) {
  const auto number = parse_number(text);
  if (!number || *number < 0 || *number >= 1) {
    return wrong_usage(std::string(flag_name) + ": '" + text + "' is not a number from 0 to below 1");
  }
  target = *number;
  return {};
}

Status use_positive(const char* flag_name, const std::string& text, double& target) {
  target = parse_number(text).value_or(0);
  if (target > 0) return {};
  return wrong_usage(std::string(flag_name) + ": '" + text + "' is not a number above 0");
}

Status use_spread(SimulateFlags& flags, const std::string& text) {
  flags.hosts.spread = parse_number(text).value_or(0);
  if (flags.hosts.spread > 0 && flags.hosts.spread <= 1) return {};
  return wrong_usage("--spread: '" + text + "' is not a number above 0 and at most 1");
}

Status use_cost(SimulateFlags& flags, const std::string& text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string kind = text.substr(0, colon);
  const bool takes_time = kind == "swap" || kind == "restart";
  if ((kind != "none" && kind != "muri" && !takes_time) || (colon < text.size() && !takes_time)) {
    return wrong_usage("--cost: '" + text + "' is not one of none, swap[:S], restart[:S], muri");
  }
  flags.cost.kind = kind == "none"   ? Cost::Kind::kNone
                    : kind == "swap" ? Cost::Kind::kSwap
                    : kind == "muri" ? Cost::Kind::kMuri
                                     : Cost::Kind::kRestart;
  if (takes_time) {
    flags.cost.start_s = kind == "swap" ? heuristics::cluster::kSwapStart_s : heuristics::cluster::kRestartStart_s;
  }
  if (colon == text.size()) return {};
  const auto seconds = parse_number(text.substr(colon + 1));
  if (!seconds || *seconds < 0)
    return wrong_usage("--cost: '" + text.substr(colon + 1) + "' is not a number of seconds");
  flags.cost.start_s = *seconds;
  return {};
}

Status use_whole(const char* flag_name, const std::string& text, std::uint64_t& target) {
  const auto number = parse_whole_number(text);
  if (!number) return wrong_usage(std::string(flag_name) + ": '" + text + "' is not a whole number");
  target = *number;
  return {};
}

Status use_format(SimulateFlags& flags, const std::string& text) {
  const auto& names = trace_format_names();
  if (std::find(names.begin(), names.end(), text) == names.end()) {
    return wrong_usage("--format: '" + text + "' is not one of " + join(names, ", "));
  }
  flags.trace.format = text;
  return {};
}

Status check_flags(const SimulateFlags& flags) {
  if (!flags.journal.empty()) return {};
  if (flags.files.empty()) return wrong_usage("name at least one trace file");
  if (flags.policy_list.empty()) return wrong_usage("name at least one policy by --policy");
  if (flags.gpus_list.empty() && flags.gpus.empty() && flags.load == 0)
    return wrong_usage("give the size of the cluster: --gpus N, --load X or --hosts NxSLOTS");
  const auto& hosts = flags.hosts;
  if (hosts.hosts == 0 && (hosts.interference > 0 || hosts.failure_every_s > 0 || hosts.stragglers > 0 ||
                           hosts.spread < 1 || hosts.migration)) {
    return wrong_usage(
        "--interference, --failures, --stragglers, --spread and --migration need hosts: --hosts NxSLOTS");
  }
  return {};
}

// The cluster that the flags describe. Like a mistake in a cluster's file, one here ends with 78.
Status choose_cluster(SimulateFlags& flags) {
  if (const Status good = use_policies(flags); !good.ok()) return good;
  if (const Status good = use_gpus(flags); !good.ok()) return good;
  const bool any_packs =
      std::any_of(flags.policies.begin(), flags.policies.end(), [](const PolicySpec* policy) { return policy->packs; });
  if (flags.packed_speed == 0 || any_packs) return {};
  return Error{ErrorCode::kInvalid, "--packing needs a policy that packs two jobs into a slot: --policy gandiva"};
}

// --- Making the runs

Status suits(const Trace& trace, const PolicySpec& policy, const SimulateFlags& flags) {
  if (policy.elastic && !trace.elastic) {
    return Error{ErrorCode::kInvalid,
                 trace.name + ": the policy " + policy.name +
                     " chooses sizes and needs throughputs at several; this trace has one per job"};
  }
  if (policy.needs_lengths && flags.lengths_unknown) {
    return Error{ErrorCode::kInvalid, "the policy " + policy.name + " needs the jobs' lengths (--lengths unknown)"};
  }
  if (flags.hosts.hosts > 0 && policy.name == "max-min-fluid") {
    return Error{ErrorCode::kInvalid, "the policy max-min-fluid gives parts of slots, which have no place on --hosts"};
  }
  if (flags.hosts.hosts > 0 && flags.cost.kind == Cost::Kind::kMuri) {
    return Error{ErrorCode::kInvalid, "--cost muri knows no hosts; leave out --hosts"};
  }
  if (flags.cost.kind != Cost::Kind::kMuri) return {};
  if (policy.elastic)
    return Error{ErrorCode::kInvalid, "--cost muri is for policies of fixed sizes; " + policy.name + " is elastic"};
  for (const auto& job : trace.jobs) {
    if (heuristics::cluster::muri_overhead_s(job.model, job.requested) >= 0) continue;
    return Error{ErrorCode::kInvalid,
                 trace.name + ": job " + job.id + ": --cost muri does not know the model '" + job.model + "'"};
  }
  return {};
}

Result<std::vector<std::uint32_t>> sizes_for(const LoadedTraces::One& one, const SimulateFlags& flags) {
  if (!flags.gpus.empty()) return flags.gpus;
  const double gpus = std::ceil(one.demand_slots / flags.load / kLoadStep) * kLoadStep;
  if (gpus >= kLoadStep && gpus <= static_cast<double>(kMaxGpus)) return std::vector{static_cast<std::uint32_t>(gpus)};
  return Error{ErrorCode::kInvalid,
               one.trace.name + ": --load has no meaning here, all jobs arrive at once; use --gpus"};
}

Result<std::vector<SimulatedRun>> make_runs(const LoadedTraces& loaded, const SimulateFlags& flags) {
  std::vector<SimulatedRun> runs;
  for (const LoadedTraces::One& one : loaded.traces) {
    const auto sizes = sizes_for(one, flags);
    if (!sizes.ok()) return sizes.error();
    for (const PolicySpec* policy : flags.policies) {
      if (const Status good = suits(one.trace, *policy, flags); !good.ok()) return good.error();
      for (const std::uint32_t gpus : *sizes) {
        runs.push_back({&one.trace,
                        policy,
                        {gpus, flags.cost, flags.settings, flags.seed, !flags.lengths_unknown, flags.hosts,
                         flags.length_error, flags.packed_speed},
                        {},
                        {},
                        {},
                        0});
      }
    }
  }
  return runs;
}

void note_capped(const std::vector<SimulatedRun>& runs, std::vector<std::string>& notes) {
  std::set<std::pair<const Trace*, std::uint32_t>> said;
  for (const SimulatedRun& run : runs) {
    if (!said.emplace(run.trace, run.options.slots).second) continue;
    const auto over = std::count_if(run.trace->jobs.begin(), run.trace->jobs.end(),
                                    [&](const auto& job) { return job.requested > run.options.slots; });
    if (over == 0) continue;
    notes.push_back(run.trace->name + ": " + core::counted(over, "job") + (over == 1 ? " asks" : " ask") +
                    " for more than " + core::counted(run.options.slots, "GPU") + "; they get at most these");
  }
}

void note_spread(const LoadedTraces& loaded, const SimulateFlags& flags, std::vector<std::string>& notes) {
  if (flags.hosts.hosts < 2 || flags.hosts.spread < 1) return;
  for (const LoadedTraces::One& one : loaded.traces) {
    const auto& jobs = one.trace.jobs;
    if (std::any_of(jobs.begin(), jobs.end(), [](const auto& job) { return job.curve->knows_hosts(); })) continue;
    notes.push_back(one.trace.name + ": nothing is known of speeds on more hosts; --spread X assumes a part");
  }
}

// --- Output

class SimulationProgress {
 public:
  explicit SimulationProgress(std::size_t runs) : runs_(runs), shown_(surface_of(STDERR_FILENO).redraws) {}
  ~SimulationProgress() {
    if (shown_) std::cerr << "\r\x1b[K";
  }
  void show(std::size_t done) {
    constexpr std::size_t kWidth = 40;
    if (!shown_) return;
    const std::size_t full = done * kWidth / runs_;
    std::cerr << "\r[" << std::string(full, '#') << std::string(kWidth - full, ' ') << "] " << done << " of " << runs_
              << " runs" << std::flush;
  }

 private:
  std::size_t runs_;
  bool shown_;
};

Status write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path);
  if ((file << text).flush()) return {};
  return Error{ErrorCode::kIo, path.string() + " cannot be written"};
}

Status write_jobs(const std::vector<SimulatedRun>& runs, const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  for (const SimulatedRun& run : runs) {
    const auto path = std::filesystem::path(directory) / simulated_jobs_name(run);
    if (const Status good = write_file(path, simulated_jobs_csv(run)); !good.ok()) return good;
  }
  return {};
}

Status show_runs(const std::vector<SimulatedRun>& runs, const SimulateFlags& flags) {
  for (const SimulatedRun& run : runs) {
    if (run.outcome.problem.empty()) continue;
    const ErrorCode code = run.policy->outside ? ErrorCode::kInvalid : ErrorCode::kInternal;
    return Error{code, run.trace->name + ": " + run.outcome.problem};
  }
  if (!flags.jobs_directory.empty()) {
    if (const Status good = write_jobs(runs, flags.jobs_directory); !good.ok()) return good;
  }
  if (!flags.svg.empty()) {
    if (const Status good = write_file(flags.svg, simulation_svg(runs)); !good.ok()) return good;
  }
  std::cout << (flags.json ? simulation_json(runs) : flags.csv ? simulation_csv(runs) : simulation_table(runs));
  if (!std::cout.flush()) return Error{ErrorCode::kIo, "the standard output cannot be written"};
  return {};
}

int simulate_status(const Error& error) {
  std::cerr << "elastictrain simulate: " << error.message << "\n";
  return error.code == ErrorCode::kNoInput    ? kExitNoInput
         : error.code == ErrorCode::kInternal ? kExitInternal
         : error.code == ErrorCode::kIo       ? kExitCannotCreate
                                              : kExitConfig;
}

int simulate_command(SimulateFlags& flags) {
  if (const Status chosen = choose_cluster(flags); !chosen.ok()) return simulate_status(chosen.error());
  auto loaded = load_traces(flags.files, flags.trace);
  if (!loaded.ok()) return simulate_status(loaded.error());
  auto runs = make_runs(*loaded, flags);
  if (!runs.ok()) return simulate_status(runs.error());
  note_capped(*runs, loaded->notes);
  note_spread(*loaded, flags, loaded->notes);
  for (const std::string& note : loaded->notes) std::cerr << "elastictrain simulate: " << note << "\n";
  {
    SimulationProgress progress(runs->size());
    simulate_all(*runs, !flags.svg.empty(), [&](std::size_t done) { progress.show(done); });
  }
  const Status shown = show_runs(*runs, flags);
  return shown.ok() ? kExitSuccess : simulate_status(shown.error());
}

// The past of a cluster again, beside what happened.
int replay_command(const SimulateFlags& given) {
  SimulateFlags flags = given;
  if (const Status good = use_policies(flags); !good.ok()) return simulate_status(good.error());
  ReplayFlags replay{flags.journal, {}, flags.csv, flags.json};
  for (const PolicySpec* policy : flags.policies) {
    if (policy->outside) {
      return simulate_status({ErrorCode::kInvalid, "--journal replays built-in policies, not " + policy->name});
    }
    replay.policies.push_back(policy->name);
  }
  const auto replayed = replay_journal(replay);
  if (!replayed.ok()) return simulate_status(replayed.error());
  for (const std::string& note : replayed->notes) std::cerr << "elastictrain simulate: " << note << "\n";
  const ReplayReport& report = replayed->report;
  std::cout << (flags.json ? replay_json(report) : flags.csv ? replay_csv(report) : replay_table(report));
  if (std::cout.flush()) return kExitSuccess;
  return simulate_status({ErrorCode::kIo, "the standard output cannot be written"});
}

// After the arguments that it cannot be given with.
Argument journal_argument(const std::shared_ptr<SimulateFlags>& flags) {
  return value("--journal", "DIR", "of a cluster: what happened to its jobs, beside what the simulator predicts",
               flags->journal)
      .instead_of(
          {"files", "--gpus", "--load", "--hosts", "--cost", "--curves", "--jobs", "--svg", "--lengths", "--slice"});
}

// The cluster, and what is assumed of it.
std::vector<Argument> cluster_arguments(const std::shared_ptr<SimulateFlags>& flags) {
  using Text = const std::string&;
  return {
      words("files", "FILE...", "traces, archives of traces, or directories with jobs.csv", flags->files),
      value("--policy", "A,B...", "sharing policies, or programs and libraries of your own", flags->policy_list),
      value("--gpus", "N,...", "sizes of the cluster", flags->gpus_list),
      value("--load", "X", "the least multiple of 8 GPUs with an offered load of at most X",
            [flags](Text text) { return use_positive("--load", text, flags->load); })
          .instead_of({"--gpus"}),
      value("--hosts", "NxSLOTS", "hosts, on which jobs are placed; otherwise the cluster is one pool of slots",
            [flags](Text text) { return use_hosts(*flags, text); })
          .instead_of({"--gpus", "--load"}),
      value("--interference", "X", "with hosts: the part of its speed that a job loses while it shares a host",
            [flags](Text text) { return use_part("--interference", text, flags->hosts.interference); }),
      flag("--migration", "with hosts: workers move to other hosts where that pays, as on a live cluster",
           flags->hosts.migration),
      value("--spread", "X",
            "with hosts: the part of its speed that a job keeps on twice as many as it needs; default 1, or as its "
            "table says",
            [flags](Text text) { return use_spread(*flags, text); }),
      value("--packing", "X", "policies that pack may let two jobs share slots; X: their speed there, of that alone",
            [flags](Text text) {
              const Status used = use_part("--packing", text, flags->packed_speed);
              flags->settings.packs = flags->packed_speed > 0;
              return used;
            }),
      value("--failures", "S", "with hosts: each fails after S seconds on average, and is back after 600",
            [flags](Text text) { return use_positive("--failures", text, flags->hosts.failure_every_s); }),
      value("--stragglers", "X", "with hosts: the part of them that is slow; jobs there have half the speed",
            [flags](Text text) { return use_part("--stragglers", text, flags->hosts.stragglers); }),
      value("--cost", "COST", "none (default), swap[:S], restart[:S], muri",
            [flags](Text text) { return use_cost(*flags, text); }),
  };
}

// The jobs, and what is written of them.
std::vector<Argument> job_arguments(const std::shared_ptr<SimulateFlags>& flags) {
  using Text = const std::string&;
  return {
      list("--curves", "PATH", "throughput curves; may be given several times", flags->trace.curves),
      value("--vc", "ID,...", "virtual clusters of the trace, each on its own",
            [flags](Text text) {
              flags->trace.vcs = split(text, ',');
              return Status();
            }),
      value("--format", "NAME", "format of the traces, if their header does not say it",
            [flags](Text text) { return use_format(*flags, text); }),
      flag("--merge", "take the files as one trace", flags->trace.merge),
      value("--limit", "K", "only the first K jobs of each trace",
            [flags](Text text) {
              std::uint64_t limit = 0;
              const Status good = use_whole("--limit", text, limit);
              flags->trace.limit = limit;
              return good;
            }),
      value("--time-scale", "X", "divide all times of the traces by X",
            [flags](Text text) { return use_positive("--time-scale", text, flags->trace.time_scale); }),
      value("--slice", "S",
            "seconds of a time slice, of policies that have them: gandiva (60), afs-p (7200), max-min (none)",
            [flags](Text text) { return use_positive("--slice", text, flags->settings.slice_s); }),
      value("--lengths", "known|unknown", "whether jobs say how long they are (default known)",
            [flags](Text text) -> Status {
              if (text != "known" && text != "unknown") return wrong_usage("--lengths: 'known' or 'unknown'");
              flags->lengths_unknown = text == "unknown";
              return {};
            }),
      value("--length-error", "X", "lengths that jobs say are wrong by a random factor, exp(X) in the typical case",
            [flags](Text text) { return use_positive("--length-error", text, flags->length_error); }),
      value("--seed", "N", "of the random numbers (default 1)",
            [flags](Text text) { return use_whole("--seed", text, flags->seed); }),
      flag("--csv", "print one CSV row per run", flags->csv),
      flag("--json", "print a list of JSON objects", flags->json).instead_of({"--csv"}),
      value("--jobs", "DIR", "write a CSV file with the jobs of each run", flags->jobs_directory),
      value("--svg", "FILE", "draw completion times, and the slots of the first run over time", flags->svg),
      journal_argument(flags),
  };
}

std::vector<Argument> simulate_arguments(const std::shared_ptr<SimulateFlags>& flags) {
  std::vector<Argument> arguments = cluster_arguments(flags);
  for (Argument& argument : job_arguments(flags)) arguments.push_back(std::move(argument));
  return arguments;
}

}  // namespace

Command make_simulate(Invocation& invocation) {
  const auto flags = std::make_shared<SimulateFlags>();
  const auto choose = [&invocation, flags]() -> Status {
    if (const Status good = check_flags(*flags); !good.ok()) return good;
    invocation.action = [flags] { return flags->journal.empty() ? simulate_command(*flags) : replay_command(*flags); };
    return {};
  };
  return {kSimulate,   "the jobs of a trace on one cluster, under sharing policies",
          kGroupTrain, simulate_arguments(flags),
          choose,      kSimulateDetails};
}

}  // namespace elastictrain::cli
