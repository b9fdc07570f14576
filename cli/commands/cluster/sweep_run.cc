#include "cli/commands/cluster/sweep_run.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <filesystem>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "cli/commands/exit_code.h"
#include "cli/config/text.h"
#include "cli/output/cluster_text.h"
#include "cli/output/printable.h"
#include "cli/output/terminal.h"
#include "launcher/process/process.h"
#include "supervisor/control/control_protocol.h"
#include "supervisor/core/pure/message_text.h"
#include "supervisor/run_directory.h"
#include "supervisor/run_record.h"

namespace elastictrain::cli {
namespace {

constexpr std::size_t kMostErrorBytes = 16 << 10;

launcher::ProcessSpec spec_of(const SweepTrial& trial, const SweepPlace& place) {
  launcher::ProcessSpec spec;
  spec.argv = {"/proc/self/exe", "submit", "--name", trial.name, "--cluster", place.cluster_directory + "/"};
  spec.argv.insert(spec.argv.end(), trial.words.begin(), trial.words.end());
  spec.environment = launcher::own_environment();
  spec.working_directory = place.config_directory;
  spec.standard_output = launcher::Stream::kNull;
  spec.parent_death_signal = SIGKILL;
  return spec;
}

std::string without_name_of_command(const std::string& errors) {
  constexpr std::string_view kName = "elastictrain submit: ";
  std::vector<std::string> lines;
  std::istringstream in(errors);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(kName)) line.erase(0, kName.size());
    if (!line.empty()) lines.push_back(line);
  }
  return printable(join(lines, "; "), Lines::kOne);
}

}  // namespace

SubmitAnswer submit_trial(const SweepTrial& trial, const SweepPlace& place) {
  asio::io_context io;
  int status = kExitInternal;
  auto started = launcher::Process::spawn(io, spec_of(trial, place), [&status](launcher::ExitStatus exit) {
    status = exit.signal != 0 ? 128 + exit.signal : exit.exit_code;
  });
  if (!started.ok()) return {kExitUnavailable, started.error().message};
  std::string errors;
  std::array<char, 4096> block;
  std::function<void()> read_on = [&] {
    (*started)->error().async_read_some(asio::buffer(block), [&](const asio::error_code& error, std::size_t count) {
      errors.append(block.data(), errors.size() < kMostErrorBytes ? count : 0);
      if (!error) read_on();
    });
  };
  read_on();
  io.run();
  return {status, without_name_of_command(errors)};
}

namespace {

constexpr std::chrono::seconds kLookEvery{1};
constexpr std::chrono::seconds kSubmitAgain{5};
constexpr std::chrono::minutes kClusterAway{5};  // a cluster that is started again is back within seconds
constexpr double kClockStepS = 1;                // between two readings of the same system's clock
constexpr std::chrono::milliseconds kProgramEnds{20};

int complain_of(const std::string& text, int status) {
  std::cerr << "elastictrain sweep: " << text << "\n";
  return status;
}

double unix_now_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// The newest of several; nothing: there is none.
const nlohmann::json* job_named(const nlohmann::json& cluster, const std::string& name) {
  const auto& jobs = cluster["jobs"];
  const std::uint64_t own = ::geteuid();
  const auto job = std::find_if(jobs.rbegin(), jobs.rend(), [&](const auto& one) {
    return one.value("name", "") == name && one.value("uid", own) == own;
  });
  return job == jobs.rend() ? nullptr : &*job;
}

}  // namespace

SweepRun::SweepRun(SweepFile file, std::vector<SweepTrial> trials, SweepState state, SweepPlace place)
    : file_(std::move(file)),
      trials_(std::move(trials)),
      state_(std::move(state)),
      place_(std::move(place)),
      live_(trials_.size()),
      report_file_(state_.reports_path()) {
  for (std::size_t i = 0; i < trials_.size(); ++i) reports_.emplace_back(file_);
  restore_reports();
}

void SweepRun::restore_reports() {
  auto known = report_file_.read();
  for (std::size_t i = 0; i < trials_.size(); ++i) {
    const auto found = known.find(trials_[i].name);
    if (found != known.end()) reports_[i].restore(std::move(found->second));
  }
}

// Before anything is submitted.
int SweepRun::begin() {
  const ClusterAnswer answer = look();
  if (answer.status != kExitSuccess) return complain_of(answer.text, answer.status);
  if (const int status = names_in_use(answer.object["cluster"]); status != kExitSuccess) return status;
  if (file_.program.empty()) return kExitSuccess;
  auto program = SweepProgram::start(io_, file_, place_.config_directory,
                                     [this](const std::string& line) { say("rule: " + line); });
  if (!program.ok()) return complain_of(program.error().message, kExitConfig);
  program_ = std::move(*program);
  return kExitSuccess;
}

int SweepRun::names_in_use(const nlohmann::json& cluster) const {
  for (std::size_t i = 0; i < trials_.size(); ++i) {
    if (state_.trials[i].begun_unix_s > 0 || state_.trials[i].is_submitted || state_.trials[i].status) continue;
    const nlohmann::json* const job = job_named(cluster, trials_[i].name);
    if (job == nullptr || job->value("phase", "") == "ended") continue;
    return complain_of("the cluster has a job " + trials_[i].name +
                           " already, which is none of this sweep: choose another name for the sweep, or end the job "
                           "(elastictrain cancel)",
                       kExitConfig);
  }
  return kExitSuccess;
}

int SweepRun::run(SweepShows shows) {
  shows_ = shows;
  if (const int status = begin(); status != kExitSuccess) return status;
  auto answered = Clock::now();
  while (true) {
    if (const int status = submit_missing(); status != kExitSuccess) return status;
    const ClusterAnswer answer = look();
    const auto now = Clock::now();
    if (answer.status == kExitSuccess) answered = now;
    if (now - answered > kClusterAway) return complain_of(answer.text + "; the trials may train on", answer.status);
    if (const int status = read_reports(); status != kExitSuccess) return status;
    judge();
    cancel_stopped();
    if (const int status = keep(); status != kExitSuccess) return status;
    if (shows_ == SweepShows::kTable) {
      if (!clear_terminal()) return kExitFailure;
      std::cout << render_sweep(view(), room_of(STDOUT_FILENO)) << std::flush;
    }
    if (all_over()) break;
    wait_for_news();
  }
  end_program();
  return kExitSuccess;
}

void SweepRun::wait_for_news() {
  const auto until = Clock::now() + kLookEvery;
  io_.restart();
  io_.run_until(until);
  std::this_thread::sleep_until(until);
}

// Its input ends, and it has the time of an answer to end by itself.
void SweepRun::end_program() {
  if (!program_) return;
  program_->close();
  const auto until = Clock::now() + std::chrono::milliseconds(file_.timeout_ms);
  while (program_->is_running() && Clock::now() < until) {
    io_.restart();
    io_.run_for(kProgramEnds);
  }
}

int SweepRun::cancel() {
  shows_ = SweepShows::kEvents;
  const ClusterAnswer answer = look();
  if (answer.status != kExitSuccess) return complain_of(answer.text, answer.status);
  std::vector<std::size_t> ended;
  for (std::size_t i = 0; i < trials_.size(); ++i) {
    TrialState& trial = state_.trials[i];
    if (trial.status) continue;
    if (trial.stopped.empty()) trial.stopped = "the sweep was cancelled";
    if (!trial.is_submitted) trial.status = kExitSuccess;
    ended.push_back(i);
  }
  cancel_stopped();
  int status = keep();
  for (const std::size_t i : ended) {
    if (!live_[i].not_ended.empty()) {
      status = complain_of(trials_[i].name + " is not ended: " + live_[i].not_ended, kExitFailure);
    } else {
      say(trials_[i].name + (state_.trials[i].is_submitted ? " is cancelled" : " is not submitted any more"));
    }
  }
  if (ended.empty()) say("nothing is left to end: " + core::counted(trials_.size(), "trial") + " had ended before");
  return status;
}

bool SweepRun::all_over() const {
  return std::all_of(state_.trials.begin(), state_.trials.end(),
                     [](const TrialState& trial) { return trial.status.has_value(); });
}

bool SweepRun::any_submitted() const {
  return std::any_of(state_.trials.begin(), state_.trials.end(),
                     [](const TrialState& trial) { return trial.is_submitted; });
}

int SweepRun::submit_missing() {
  for (std::size_t i = 0; i < trials_.size(); ++i) {
    if (Clock::now() < submit_next_) break;
    if (state_.trials[i].is_submitted || state_.trials[i].status) continue;
    if (const int status = submit(i); status != kExitSuccess) return status;
    if (const int kept = keep(); kept != kExitSuccess) return kept;
  }
  return kExitSuccess;
}

// That it is about to be submitted is kept first: if this process ends in between, the next one looks for the job.
int SweepRun::submit(std::size_t trial) {
  TrialState& state = state_.trials[trial];
  if (state.begun_unix_s == 0) state.begun_unix_s = unix_now_s();
  if (const int kept = keep(); kept != kExitSuccess) return kept;
  const SubmitAnswer answer = submit_trial(trials_[trial], place_);
  if (answer.status != kExitSuccess) return refused(trial, answer);
  state.is_submitted = true;
  live_[trial].is_live = true;
  live_[trial].state = "waits";
  live_[trial].why.clear();
  return kExitSuccess;
}

// A full queue has room again when jobs have ended, and a cluster that was away may be back; a mistake stays one. If no
// trial has been accepted before it, it is that of all of them.
int SweepRun::refused(std::size_t trial, const SubmitAnswer& answer) {
  TrialState& state = state_.trials[trial];
  const ClusterAnswer cluster = look();
  if (state.is_submitted) return kExitSuccess;  // by an earlier process, which ended before it was told
  const bool is_known = live_[trial].why == answer.text;
  const bool later = answer.status == kExitPreempted || cluster.status != kExitSuccess ||
                     (answer.status == kExitUnavailable && !is_known);
  if (later) {
    if (!is_known) warn(trials_[trial].name + " is not accepted yet, and is submitted again: " + answer.text);
    live_[trial].why = answer.text;
    submit_next_ = Clock::now() + kSubmitAgain;
    return kExitSuccess;
  }
  if (!any_submitted()) {
    state.begun_unix_s = 0;
    keep();
    return complain_of(trials_[trial].name + ": " + answer.text, answer.status);
  }
  state.refused = answer.text;
  state.status = answer.status;
  warn(trials_[trial].name + " is refused (" + std::to_string(answer.status) +
       "), and the sweep goes on without it: " + answer.text);
  return kExitSuccess;
}

ClusterAnswer SweepRun::look() {
  ClusterAnswer answer = ask_cluster(place_.cluster_directory + "/", {{"command", "queue"}});
  if (answer.status == kExitSuccess) take(in_one_line(answer.object["cluster"]));
  return answer;
}

void SweepRun::take(const nlohmann::json& cluster) {
  for (std::size_t i = 0; i < trials_.size(); ++i) {
    const TrialState& trial = state_.trials[i];
    if (trial.status) continue;
    const nlohmann::json* const job = job_named(cluster, trials_[i].name);
    if (!trial.is_submitted && trial.begun_unix_s > 0) take_begun(i, job);
    if (!trial.is_submitted) continue;
    job != nullptr ? take_job(i, *job) : take_lost(i);
  }
}

// It may have become a job before an earlier process could keep that.
void SweepRun::take_begun(std::size_t trial, const nlohmann::json* job) {
  TrialState& state = state_.trials[trial];
  if (job != nullptr) {
    state.is_submitted = job->value("submitted_unix_s", 0.0) >= state.begun_unix_s - kClockStepS;
    return;
  }
  const auto directory = run_directory_of(trials_[trial].name);
  std::error_code unknown;
  state.is_submitted = directory.ok() && std::filesystem::exists(*directory + "/" + control::kJournalName, unknown);
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
  live_[trial].note.clear();
  const std::string how = state_of(trial);
  if (how != "stopped") say(trials_[trial].name + " " + how);
}

int SweepRun::read_reports() {
  for (std::size_t i = 0; i < trials_.size(); ++i) {
    Live& live = live_[i];
    if (state_.trials[i].status && live.directory.empty() && state_.trials[i].is_submitted) {  // of an earlier sweep
      live.has_begun = true;
      if (const auto directory = run_directory_of(trials_[i].name); directory.ok()) live.directory = *directory;
    }
    if (!live.has_begun || live.directory.empty()) continue;
    const std::size_t before = reports_[i].values().size();
    const bool is_anew = reports_[i].read(live.directory);
    const std::size_t now = reports_[i].values().size();
    if (now == before && !is_anew) continue;
    const Status kept =
        report_file_.add(trials_[i].name, is_anew ? 0 : before, {reports_[i].values(), reports_[i].place()});
    if (!kept.ok()) return complain_of(kept.error().message, kExitCannotCreate);
  }
  const std::string best = best_trial(view()).value_or("");
  if (best != best_ && !best.empty()) say("best: " + best);
  best_ = best;
  return kExitSuccess;
}

void SweepRun::judge() {
  if (program_) {
    take_answer();
    program_->ask(view());
    return;
  }
  std::vector<heuristics::sweep::Trial> results;
  for (std::size_t i = 0; i < trials_.size(); ++i) results.push_back(results_of(i));
  for (const auto& verdict : heuristics::sweep::trials_to_stop(file_.rule, results)) {
    stop(verdict.trial, verdict.reason);
  }
}

void SweepRun::take_answer() {
  if (const auto answer = program_->take()) {
    for (std::size_t i = 0; i < trials_.size(); ++i) {
      const auto stopped = answer->stop.find(trials_[i].name), going = answer->go_on.find(trials_[i].name);
      if (stopped != answer->stop.end()) stop(i, stopped->second);
      live_[i].note = going != answer->go_on.end() && !state_.trials[i].status ? going->second : "";
    }
  }
  if (program_->failure().empty() || program_->failure() == problem_) return;
  problem_ = program_->failure();
  warn(problem_);
}

void SweepRun::stop(std::size_t trial, const std::string& reason) {
  TrialState& state = state_.trials[trial];
  if (!state.stopped.empty() || state.status) return;
  state.stopped = reason;
  if (!state.is_submitted) state.status = kExitSuccess;
  say(trials_[trial].name + " is stopped: " + reason);
}

// Also those of an earlier sweep that ended before it could.
void SweepRun::cancel_stopped() {
  for (std::size_t i = 0; i < trials_.size(); ++i) {
    const Live& live = live_[i];
    if (!state_.trials[i].stopped.empty() && live.is_live && live.is_known && !live.is_cancelled) end_trial(i);
  }
}

void SweepRun::end_trial(std::size_t trial) {
  Live& live = live_[trial];
  const ClusterAnswer answer = ask_cluster(place_.cluster_directory + "/", {{"command", "cancel"}, {"job", live.id}});
  live.is_cancelled = answer.status == kExitSuccess;
  const std::string why = live.is_cancelled ? "" : answer.text;
  if (why != live.not_ended && !why.empty()) warn(trials_[trial].name + " is not ended yet: " + why);
  live.not_ended = why;
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
  if (!state.refused.empty()) return "refused (" + std::to_string(*state.status) + ")";
  return *state.status == kExitSuccess ? "ended" : "failed (" + std::to_string(*state.status) + ")";
}

SweepView SweepRun::view() const {
  SweepView sweep{.name = file_.name,
                  .metric = file_.metric.empty() ? "value" : file_.metric,
                  .rule = file_.rule,
                  .trials = {},
                  .problem = problem_};
  for (std::size_t i = 0; i < trials_.size(); ++i) {
    sweep.trials.push_back({.name = trials_[i].name,
                            .values = trials_[i].values,
                            .state = state_of(i),
                            .trial = results_of(i),
                            .slots = live_[i].slots,
                            .why = why_of(i)});
  }
  return sweep;
}

std::string SweepRun::why_of(std::size_t trial) const {
  const TrialState& state = state_.trials[trial];
  const Live& live = live_[trial];
  if (!state.refused.empty()) return state.refused;
  if (!state.stopped.empty()) return state.stopped;
  if (!state.status) return live.why.empty() ? live.note : live.why;
  if (!reports_[trial].values().empty()) return "";
  return file_.pattern.empty() ? "it noted no " + file_.metric : "no line of rank 0 fits the pattern";
}

void SweepRun::say(const std::string& what) const {
  if (shows_ == SweepShows::kEvents) std::cout << what << std::endl;
}

// The table shows it in the trial's row.
void SweepRun::warn(const std::string& what) const {
  if (shows_ == SweepShows::kNothing) std::cerr << "elastictrain sweep: " << what << "\n";
  say(what);
}

int SweepRun::keep() {
  const Status saved = state_.save();
  return saved.ok() ? kExitSuccess : complain_of(saved.error().message, kExitCannotCreate);
}

}  // namespace elastictrain::cli
