#include "cli/report/collector.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <utility>
#include <variant>
#include <vector>

#include "cli/output/summary.h"
#include "supervisor/core/pure/message_text.h"
#include "supervisor/policy/view_json.h"

namespace elastictrain::cli::run_report {
namespace {

constexpr std::size_t kMaxSizes = 4'000;
constexpr std::size_t kMaxNotes = 100;

// Of the members that have new figures; the lower one, so that of two workers the slower is the slow one.
double usual_compute_s(const std::vector<heuristics::WorkerView>& members) {
  std::vector<double> times;
  for (const auto& member : members) {
    if (member.steps > 0 && member.compute_s > 0) times.push_back(member.compute_s);
  }
  if (times.empty()) return 0;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>((times.size() - 1) / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

void add_parts(StepParts& parts, const heuristics::WorkerView& member) {
  const auto steps = static_cast<double>(member.steps);
  parts.steps += steps;
  parts.step_s += member.step_s * steps;
  parts.data_wait_s += member.data_wait_s * steps;
  parts.compute_s += member.compute_s * steps;
  parts.communicate_s += member.communicate_s * steps;
  parts.update_s += member.update_s * steps;
}

std::string end_of_process(const core::record::Exited& exited) {
  if (exited.signal == 0) return "status " + std::to_string(exited.exit_code);
  const char* name = ::sigabbrev_np(exited.signal);
  return "signal " + (name != nullptr ? std::string(name) : std::to_string(exited.signal));
}

}  // namespace

void Collector::take(const core::Record& record, double up_s, double unix_s) {
  now_s_ = std::isfinite(up_s) ? std::max(0.0, up_s) : now_s_;
  if (unix_s > 0) now_unix_s_ = unix_s;
  report_.up_s = std::max(report_.up_s, now_s_);
  if (report_.began_unix_s == 0) report_.began_unix_s = now_unix_s_;
  report_.last_unix_s = now_unix_s_;
  record.visit([this](const auto& about) { on(about); });
}

Report Collector::result() const {
  Report report = report_;
  report.changes.trim();
  report.incidents.trim();
  return report;
}

void Collector::note(IncidentKind kind, std::string what) {
  report_.incidents.add({now_s_, now_unix_s_, kind, std::move(what)});
}

void Collector::size_is(std::uint64_t workers) {
  size_ = workers;
  auto& sizes = report_.sizes;
  if (!sizes.empty() && sizes.back().workers == workers) return;
  if (sizes.size() < kMaxSizes) sizes.push_back({now_s_, workers});
}

Change* Collector::change_to(Generation generation) {
  auto& rows = report_.changes.rows;
  const auto found =
      std::find_if(rows.rbegin(), rows.rend(), [&](const Change& change) { return change.generation == generation; });
  return found == rows.rend() ? nullptr : &*found;
}

WorkerReport* Collector::worker(std::uint64_t id) {
  const auto found = report_.workers.find(id);
  if (found != report_.workers.end()) return &found->second;
  if (report_.workers.size() >= kMaxWorkers) {
    ++report_.workers_left_out;
    return nullptr;
  }
  WorkerReport& made = report_.workers[id];
  made.id = id;
  return &made;
}

// --- The run as a whole

void Collector::on(const core::record::RunOpened& opened) {
  report_.name = opened.run;
  report_.version = opened.version;
  report_.command = opened.command;
  report_.min_workers = opened.min_workers;
  report_.start_workers = opened.start_workers;
  report_.max_workers = opened.max_workers;
}

void Collector::on(const core::record::RunResumed& resumed) {
  ++report_.supervisors;
  report_.exit_status.reset();
  report_.version = resumed.version;
  report_.max_workers = std::max(report_.max_workers, resumed.max_workers);
  const bool anew = resumed.anew.value_or(false);
  if (anew) size_is(0);
  note(IncidentKind::kSupervisor, anew ? "the run is started again from its newest checkpoint"
                                       : "another supervisor takes the run over; its workers train on");
}

void Collector::on(const core::record::RunClosed& closed) {
  report_.exit_status = closed.exit_status;
  if (report_.end_reason.empty()) report_.end_reason = closed.reason;
  size_is(0);
}

void Collector::on(const core::record::TakenOver& taken) {
  if (taken.unsettled) note(IncidentKind::kSupervisor, "the earlier supervisor was lost in the middle of a change");
}

void Collector::on(const core::record::End& end) {
  report_.end_reason = end.reason;
  note(IncidentKind::kEnd, "the run ends: " + end.reason);
}

void Collector::on(const core::record::Audit& audit) {
  report_.audit_failed = audit.missing + audit.repeated + audit.unequal_hashes > 0;
  report_.audit = audit_text(audit);
}

void Collector::on(const core::record::Note& note) {
  if (report_.notes.size() < kMaxNotes || report_.notes.contains(note.key)) report_.notes[note.key] = note.value;
}

// --- Workers

void Collector::on(const core::record::Spawn& spawn) {
  if (WorkerReport* one = worker(spawn.worker.value)) one->host = spawn.host;
}

void Collector::on(const core::record::Active& active) {
  step_is(active.first_step);
  report_.transferred_bytes += active.transfer_bytes;
}

void Collector::on(const core::record::Finished& finished) {
  step_is(finished.last_step);
  if (WorkerReport* one = worker(finished.worker.value)) ends(*one, "finished", false);
}

void Collector::on(const core::record::Left& left) {
  step_is(left.last_step);
  if (WorkerReport* one = worker(left.worker.value)) ends(*one, "left at a step boundary", false);
}

void Collector::on(const core::record::Exited& exited) {
  WorkerReport* one = worker(exited.worker.value);
  if (one == nullptr) return;
  const bool expected = exited.signal == 0 && exited.exit_code == 0;
  if (one->fate.empty() || !expected) ends(*one, end_of_process(exited), !expected);
}

void Collector::on(const core::record::Vanished& vanished) {
  if (WorkerReport* one = worker(vanished.worker.value)) ends(*one, "vanished", true);
}

// The first news of its end is when it ended; a later one may know why.
void Collector::ends(WorkerReport& worker, const std::string& how, bool failed) {
  worker.fate = how;
  worker.failed = failed;
  if (!worker.ended_s) worker.ended_s = now_s_;
}

// --- Changes and recoveries

void Collector::on(const core::record::Prepare& prepare) {
  Change change;
  change.generation = prepare.generation;
  change.kind = core::change_name(prepare.kind);
  change.reason = prepare.reason;
  change.planned_s = now_s_;
  change.size_before = size_;
  change.size = prepare.members.size();
  report_.changes.add(std::move(change));
  if (prepare.resume_step) step_is(*prepare.resume_step);
}

void Collector::on(const core::record::Cancel& cancel) {
  if (Change* change = change_to(cancel.generation)) change->cancelled = cancel.reason;
}

void Collector::on(const core::record::Commit& commit) {
  if (Change* change = change_to(commit.generation)) change->committed_s = now_s_;
}

void Collector::on(const core::record::GenerationComplete& complete) {
  ++report_.changes_made;
  step_is(complete.first_step);
  if (!report_.first_step_s && complete.world_size > 0) report_.first_step_s = now_s_;
  size_is(complete.world_size);
}

void Collector::on(const core::record::Idle& idle) {
  const double seconds = std::max(0.0, idle.idle_ms / 1e3);
  report_.idle_s += seconds;
  if (Change* change = change_to(idle.generation)) change->idle_s = seconds;
}

void Collector::on(const core::record::Abort& abort) {
  ++report_.recoveries;
  note(IncidentKind::kHalt, "a recovery begins: " + abort.reason);
}

void Collector::on(const core::record::HaltSettled& settled) {
  step_is(settled.committed_step);
}

void Collector::on(const core::record::BelowMin& below) {
  note(IncidentKind::kHalt, core::counted(below.workers, "worker") + (below.workers == 1 ? " is" : " are") +
                                " left, fewer than the minimum of " + std::to_string(below.min) +
                                ": they wait for others");
  size_is(0);
}

void Collector::on(const core::record::StateLost& lost) {
  note(IncidentKind::kHalt, std::string("no worker holds the state any more") +
                                (lost.has_checkpoints ? "; a checkpoint is there" : "") + ": " + lost.reason);
}

void Collector::on(const core::record::Loss& loss) {
  ++report_.losses_by_class[loss.failure_class];
  note(IncidentKind::kLoss, loss.failure_class + ": " + loss.what);
}

void Collector::on(const core::record::Hang& hang) {
  note(IncidentKind::kHang, "worker " + std::to_string(hang.worker.value) + " on " + hang.host +
                                " makes no progress in step " + std::to_string(hang.step) + ": " + hang.reason);
}

void Collector::on(const core::record::Stuck& stuck) {
  note(IncidentKind::kHang, "all workers wait for one another in step " + std::to_string(stuck.step));
}

void Collector::on(const core::record::PlainRestart& restart) {
  note(IncidentKind::kLoss, "all processes are started again: " + restart.reason);
}

void Collector::on(const core::record::AgentLost& lost) {
  note(IncidentKind::kHost, "host " + lost.host + " is given up: " + lost.reason);
}

void Collector::on(const core::record::HostNotice& notice) {
  note(IncidentKind::kHost, "host " + notice.host + " is about to go away: " + notice.reason);
}

void Collector::on(const core::record::HostCooled& cooled) {
  note(IncidentKind::kHost, "host " + cooled.host + " is not used for a while after " +
                                std::to_string(cooled.failures) + " failures in a row: " + cooled.reason);
}

// --- What policies saw and decided

void Collector::on(const core::record::Observed& observed) {
  const auto view = policy::view_from_json(observed.view.text);
  if (!view.ok() || view->jobs.size() != 1) return;
  const heuristics::JobView& job = view->jobs.front();
  step_is(static_cast<Step>(std::clamp(job.steps_done, 0.0, 1e15)));
  report_.samples = std::max(report_.samples, job.samples_done);
  report_.worker_seconds = std::max(report_.worker_seconds, job.worker_seconds);
  report_.cost = std::max(report_.cost, job.cost);
  if (job.has_loss) {
    report_.has_loss = true;
    report_.loss = job.loss;
    report_.losses.add(now_s_, mean_of(job.loss));
  }
  add_intervals(job);
  add_members(*view, job);
  ++report_.views;
  last_view_s_ = now_s_;
}

void Collector::add_intervals(const heuristics::JobView& job) {
  for (const heuristics::Interval& interval : job.intervals) {
    const double rate = interval.samples_per_s();
    if (!(rate > 0)) continue;
    report_.throughput.add((interval.begin_s + interval.end_s) / 2, mean_of(rate, interval.seconds()));
    if (!interval.warm_up) report_.throughput_by_size[interval.workers].add(mean_of(rate, interval.seconds()));
  }
}

void Collector::add_members(const heuristics::ClusterView& view, const heuristics::JobView& job) {
  const double usual = usual_compute_s(job.members);
  for (const heuristics::WorkerView& member : job.members) {
    if (member.steps == 0) continue;
    add_member(member, member.host < view.hosts.size() ? view.hosts[member.host].name : "", usual);
  }
}

void Collector::add_member(const heuristics::WorkerView& member, const std::string& host, double usual_compute) {
  add_parts(report_.parts, member);
  WorkerReport* one = worker(member.id);
  if (one == nullptr) return;
  one->rank = member.rank;
  if (!host.empty()) one->host = host;
  add_parts(one->parts, member);
  if (usual_compute > 0) {
    one->slowness.add((last_view_s_ + now_s_) / 2,
                      mean_of(member.compute_s / usual_compute, static_cast<double>(member.steps)));
  }
}

void Collector::on(const core::record::Decided& decided) {
  const bool replaces = decided.replace && !decided.replace->empty();
  const bool is_slow = decided.code.find("straggler") != std::string::npos;
  if ((!replaces && !is_slow) || decided.reason == last_straggler_) return;
  last_straggler_ = decided.reason;
  std::string what = decided.reason;
  if (replaces) {
    what += "; replaces";
    for (const std::uint64_t id : *decided.replace) what += " worker " + std::to_string(id);
  }
  note(IncidentKind::kStraggler, std::move(what));
}

}  // namespace elastictrain::cli::run_report
