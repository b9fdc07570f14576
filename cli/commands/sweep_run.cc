#include "cli/commands/sweep_run.h"

#include <unistd.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "cli/commands/exit_code.h"
#include "cli/output/one_line.h"
#include "cli/output/style.h"
#include "launcher/process/process.h"
#include "supervisor/run_directory.h"
#include "supervisor/run_record.h"

namespace elastictrain::cli {
namespace {

constexpr std::chrono::seconds kLookEvery{1};
constexpr std::chrono::minutes kClusterAway{5};  // a cluster that is started again is back within seconds

int complain_of(const std::string& text, int status) {
  std::cerr << "elastictrain sweep: " << text << "\n";
  return status;
}

}  // namespace

SweepRun::SweepRun(SweepFile file, std::vector<SweepTrial> trials, SweepState state, SweepPlace place)
    : file_(std::move(file)),
      trials_(std::move(trials)),
      state_(std::move(state)),
      place_(std::move(place)),
      live_(trials_.size()) {
  for (std::size_t i = 0; i < trials_.size(); ++i) reports_.emplace_back(file_);
}

int SweepRun::run(SweepShows shows) {
  shows_ = shows;
  if (const ClusterAnswer answer = look(); answer.status != kExitSuccess)
    return complain_of(answer.text, answer.status);
  auto answered = std::chrono::steady_clock::now();
  while (true) {
    if (const int status = submit_missing(); status != kExitSuccess) return status;
    const ClusterAnswer answer = look();
    const auto now = std::chrono::steady_clock::now();
    if (answer.status == kExitSuccess) answered = now;
    if (now - answered > kClusterAway) return complain_of(answer.text + "; the trials may train on", answer.status);
    read_reports();
    judge();
    cancel_stopped();
    if (const int status = keep(); status != kExitSuccess) return status;
    if (shows_ == SweepShows::kTable) {
      if (!clear_terminal()) return kExitFailure;
      std::cout << render_sweep(view(), room_of(STDOUT_FILENO)) << std::flush;
    }
    if (all_over()) return kExitSuccess;
    std::this_thread::sleep_for(kLookEvery);
  }
}

int SweepRun::cancel() {
  shows_ = SweepShows::kEvents;
  const ClusterAnswer answer = look();
  if (answer.status != kExitSuccess) return complain_of(answer.text, answer.status);
  for (std::size_t i = 0; i < trials_.size(); ++i) {
    if (state_.trials[i].status) continue;
    if (state_.trials[i].stopped.empty()) state_.trials[i].stopped = "the sweep was cancelled";
    if (!state_.trials[i].is_submitted) state_.trials[i].status = kExitSuccess;
  }
  cancel_stopped();
  return keep();
}

bool SweepRun::all_over() const {
  return std::all_of(state_.trials.begin(), state_.trials.end(),
                     [](const TrialState& trial) { return trial.status.has_value(); });
}

bool SweepRun::any_live() const {
  return std::any_of(live_.begin(), live_.end(), [](const Live& one) { return one.is_live; });
}

// What the cluster refuses while others of the sweep train (a limit of queued jobs, say) is tried again later.
int SweepRun::submit_missing() {
  for (std::size_t i = 0; i < trials_.size(); ++i) {
    TrialState& trial = state_.trials[i];
    if (trial.is_submitted || trial.status) continue;
    const int status = submit(i);
    if (status != kExitSuccess) return any_live() ? kExitSuccess : status;
    trial.is_submitted = true;
    live_[i].is_live = true;
    live_[i].state = "waits";
    if (const int kept = keep(); kept != kExitSuccess) return kept;
  }
  return kExitSuccess;
}

int SweepRun::submit(std::size_t trial) const {
  asio::io_context io;
  launcher::ProcessSpec spec;
  spec.argv = {"/proc/self/exe", "submit", "--name", trials_[trial].name, "--cluster", place_.cluster_directory + "/"};
  spec.argv.insert(spec.argv.end(), trials_[trial].words.begin(), trials_[trial].words.end());
  spec.environment = launcher::own_environment();
  spec.working_directory = place_.config_directory;
  spec.standard_output = launcher::Stream::kNull;
  spec.standard_error = any_live() ? launcher::Stream::kNull : launcher::Stream::kInherit;
  int status = kExitInternal;
  auto started = launcher::Process::spawn(io, spec, [&status](launcher::ExitStatus exit) {
    status = exit.signal != 0 ? 128 + exit.signal : exit.exit_code;
  });
  if (!started.ok()) return complain_of(started.error().message, kExitUnavailable);
  io.run();
  return status;
}

ClusterAnswer SweepRun::look() {
  ClusterAnswer answer = ask_cluster(place_.cluster_directory + "/", {{"command", "queue"}});
  if (answer.status == kExitSuccess) take(in_one_line(answer.object["cluster"]));
  return answer;
}

void SweepRun::take(const nlohmann::json& cluster) {
  for (std::size_t i = 0; i < trials_.size(); ++i) {
    if (!state_.trials[i].is_submitted || state_.trials[i].status) continue;
    // Of several jobs of one name the newest.
    const auto& jobs = cluster["jobs"];
    const auto job = std::find_if(jobs.rbegin(), jobs.rend(),
                                  [&](const auto& one) { return one.value("name", "") == trials_[i].name; });
    job != jobs.rend() ? take_job(i, *job) : take_lost(i);
  }
}

void SweepRun::take_job(std::size_t trial, const nlohmann::json& job) {
  Live& live = live_[trial];
  const std::string phase = job.value("phase", "");
  live.is_known = true;
  live.id = job.value("id", "");
  live.slots = job.value("slots", std::uint64_t{0});
  live.why = job.value("why", "");
  live.is_live = phase != "ended";
  live.has_begun = live.has_begun || phase == "joined" || job.value("slot_s", 0.0) > 0;
  if (const std::string directory = job.value("directory", ""); !directory.empty()) live.directory = directory;
  live.state = live.slots > 0                  ? (job.value("workers", 0) > 0 ? "trains" : "starts")
               : job.value("samples", 0.0) > 0 ? "suspended"
                                               : "waits";
  if (!live.is_live) note_end(trial, job.value("status", 0));
}

// The cluster has forgotten it, after it had ended.
void SweepRun::take_lost(std::size_t trial) {
  Live& live = live_[trial];
  live.is_live = false;
  live.has_begun = true;
  const auto directory = run_directory_of(trials_[trial].name);
  if (directory.ok()) live.directory = *directory;
  const auto record = load_run_record(live.directory);
  note_end(trial, record.ok() && record->end ? record->end->exit_status : kExitUnavailable);
}

// What it has reported is read once more, in read_reports().
void SweepRun::note_end(std::size_t trial, int status) {
  state_.trials[trial].status = status;
  live_[trial].slots = 0;
  live_[trial].why.clear();
  const std::string how = state_of(trial);
  if (how != "stopped") say(trials_[trial].name + " " + how);
}

void SweepRun::read_reports() {
  for (std::size_t i = 0; i < trials_.size(); ++i) {
    Live& live = live_[i];
    if (state_.trials[i].status && live.directory.empty() && state_.trials[i].is_submitted) {  // of an earlier sweep
      live.has_begun = true;
      if (const auto directory = run_directory_of(trials_[i].name); directory.ok()) live.directory = *directory;
    }
    if (live.has_begun && !live.directory.empty()) reports_[i].read(live.directory);
  }
  const std::string best = best_trial(view()).value_or("");
  if (best != best_ && !best.empty()) say("best: " + best);
  best_ = best;
}

void SweepRun::judge() {
  std::vector<heuristics::sweep::Trial> results;
  for (std::size_t i = 0; i < trials_.size(); ++i) results.push_back(results_of(i));
  for (const auto& verdict : heuristics::sweep::trials_to_stop(file_.rule, results)) {
    TrialState& trial = state_.trials[verdict.trial];
    if (!trial.stopped.empty()) continue;
    trial.stopped = verdict.reason;
    say(trials_[verdict.trial].name + " is stopped: " + verdict.reason);
  }
}

// Also those of an earlier sweep that ended before it could.
void SweepRun::cancel_stopped() {
  for (std::size_t i = 0; i < trials_.size(); ++i) {
    Live& live = live_[i];
    if (state_.trials[i].stopped.empty() || !live.is_live || !live.is_known || live.is_cancelled) continue;
    live.is_cancelled =
        ask_cluster(place_.cluster_directory + "/", {{"command", "cancel"}, {"job", live.id}}).status == kExitSuccess;
  }
}

heuristics::sweep::Trial SweepRun::results_of(std::size_t trial) const {
  const TrialState& state = state_.trials[trial];
  const bool is_over = state.status && state.stopped.empty();
  return {.reports = reports_[trial].values(),
          .has_ended = is_over && *state.status == kExitSuccess,
          .has_failed = is_over && *state.status != kExitSuccess};
}

std::string SweepRun::state_of(std::size_t trial) const {
  const TrialState& state = state_.trials[trial];
  if (!state.stopped.empty()) return "stopped";
  if (!state.status) return live_[trial].state;
  return *state.status == kExitSuccess ? "ended" : "failed (" + std::to_string(*state.status) + ")";
}

SweepView SweepRun::view() const {
  SweepView sweep{
      .name = file_.name, .metric = file_.metric.empty() ? "value" : file_.metric, .rule = file_.rule, .trials = {}};
  for (std::size_t i = 0; i < trials_.size(); ++i) {
    const std::string& stopped = state_.trials[i].stopped;
    sweep.trials.push_back({.name = trials_[i].name,
                            .values = trials_[i].values,
                            .state = state_of(i),
                            .trial = results_of(i),
                            .slots = live_[i].slots,
                            .why = stopped.empty() ? live_[i].why : stopped});
  }
  return sweep;
}

void SweepRun::say(const std::string& what) const {
  if (shows_ == SweepShows::kEvents) std::cout << what << std::endl;
}

int SweepRun::keep() {
  const Status saved = state_.save();
  return saved.ok() ? kExitSuccess : complain_of(saved.error().message, kExitCannotCreate);
}

}  // namespace elastictrain::cli
