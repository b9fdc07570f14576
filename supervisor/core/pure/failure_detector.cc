#include "supervisor/core/pure/failure_detector.h"

#include <algorithm>

namespace elastictrain::core {

Instant FailureDetector::watch(AgentId agent, Instant now) {
  records_[agent] = Record{now, Verdict::kHealthy};
  return now + suspect_;
}

bool FailureDetector::on_message(AgentId agent, Instant now) {
  const auto found = records_.find(agent);
  if (found == records_.end() || found->second.verdict == Verdict::kDead) return false;
  const bool was_suspect = found->second.verdict == Verdict::kSuspect;
  found->second = Record{now, Verdict::kHealthy};
  return was_suspect;
}

FailureDetector::Look FailureDetector::look(AgentId agent, Instant now) {
  const auto found = records_.find(agent);
  if (found == records_.end()) return {};
  Record& record = found->second;
  return record.verdict == Verdict::kHealthy ? look_at_healthy(record, now) : look_at_suspect(record, now);
}

FailureDetector::Look FailureDetector::look_at_healthy(Record& record, Instant now) const {
  if (now - record.last_seen < suspect_) return {Verdict::kHealthy, false, record.last_seen + suspect_};
  record.verdict = Verdict::kSuspect;
  // Half of `suspect` suffices to read what is queued on our own sockets, however late this look is.
  return {Verdict::kSuspect, true, std::max<Instant>(record.last_seen + dead_, now + suspect_ / 2)};
}

FailureDetector::Look FailureDetector::look_at_suspect(Record& record, Instant now) const {
  if (now - record.last_seen < dead_) return {Verdict::kSuspect, false, record.last_seen + dead_};
  const bool changed = record.verdict != Verdict::kDead;
  record.verdict = Verdict::kDead;
  return {Verdict::kDead, changed, now + dead_};
}

Millis FailureDetector::silence(AgentId agent, Instant now) const {
  const auto found = records_.find(agent);
  if (found == records_.end()) return Millis{0};
  return std::chrono::duration_cast<Millis>(now - found->second.last_seen);
}

namespace {

using protocol::StepPlace;

// Two looks at the same instant count as one: heartbeats that queued up are read together.
constexpr Millis kBetweenLooks{100};
// Share of the elapsed time. A control thread that sends heartbeats uses less, a starved process more.
constexpr double kIdleCpu = 0.02;
constexpr const char* kUnannounced =
    "it makes no progress at all; what takes so long is announced by phase(), in PyTorch by run.evaluation()";

bool idle(std::uint64_t cpu_ms, Millis during) {
  return static_cast<double>(cpu_ms) <= kIdleCpu * static_cast<double>(during.count());
}

bool may_take_long(StepPlace place) {
  return place == StepPlace::kStarting || place == StepPlace::kOutside || place == StepPlace::kCheckpoint;
}

// It waits there for our orders, so the time until they arrive is no evidence.
bool waits_for_orders(StepPlace place) {
  return place == StepPlace::kStarting || place == StepPlace::kHalted;
}

bool inside_step(StepPlace place) {
  return place == StepPlace::kComputing || place == StepPlace::kUpdating;
}

bool same_visit(const protocol::WorkerHeartbeat& a, const protocol::WorkerHeartbeat& b) {
  return a.place == b.place && a.phase == b.phase && a.step == b.step && a.generation == b.generation;
}

std::uint64_t used(std::uint64_t now, std::uint64_t before) {
  return now - std::min(now, before);
}

Millis millis(std::uint64_t count) {
  return Millis(static_cast<std::int64_t>(std::min<std::uint64_t>(count, std::uint64_t{1} << 50)));
}

}  // namespace

const char* place_name(StepPlace place) {
  switch (place) {
    case StepPlace::kStarting:
      return "starting";
    case StepPlace::kOutside:
      return "between steps";
    case StepPlace::kComputing:
      return "computing";
    case StepPlace::kReducing:
      return "reducing";
    case StepPlace::kUpdating:
      return "updating";
    case StepPlace::kCheckpoint:
      return "checkpoint";
    case StepPlace::kHalted:
      return "halted";
  }
  return "unknown";
}

void HangDetector::assignment(Generation generation, const std::vector<WorkerId>& members) {
  if (generation == generation_) return;
  generation_ = generation;
  holding_ = false;
  stuck_suspected_.reset();
  stuck_reported_ = false;
  std::map<WorkerId, Record> next;
  for (WorkerId member : members) {
    Record& fresh = next[member];
    const auto found = records_.find(member);
    if (found == records_.end()) continue;
    const Record& old = found->second;
    fresh.seen = old.seen;
    fresh.known = old.known;
    fresh.heartbeat = old.heartbeat;
    fresh.silent = old.silent;
    fresh.quiet = old.quiet;
    fresh.unassigned = old.unassigned;
    fresh.cpu = old.cpu;
    const bool waited = waits_for_orders(old.heartbeat.place);
    fresh.still = waited ? Millis{0} : old.still;
    fresh.cpu_when_moved = waited ? old.cpu : old.cpu_when_moved;
    fresh.cpu_when_seen = old.cpu_when_seen;
    fresh.stopped = old.stopped;
  }
  records_ = std::move(next);
}

std::vector<HangFinding> HangDetector::on_sample(const protocol::WorkerSample& sample, Instant now) {
  std::vector<HangFinding> findings;
  const auto found = records_.find(sample.worker);
  if (found == records_.end() || !settings_.detect_hangs) return findings;
  Record& record = found->second;
  take(record, sample, now);
  if (record.condemned) return findings;
  const std::optional<Over> over = judge(sample.worker, record);
  if (!over && record.suspected) {
    record.suspected.reset();
    findings.push_back(
        describe(HangFinding::Kind::kWithdrawn, sample.worker, record, {record.still, {}, "it moves", 0}));
  } else if (over && !record.suspected) {
    record.suspected = now;
    findings.push_back(describe(HangFinding::Kind::kSuspected, sample.worker, record, *over));
  } else if (over && now - *record.suspected >= kBetweenLooks) {
    record.condemned = true;
    findings.push_back(describe(HangFinding::Kind::kGuilty, sample.worker, record, *over));
  }
  look_for_stuck(sample.worker, record, now, findings);
  return findings;
}

// `still` and `silent` grow by the time between heartbeats, as long as those arrive; the worker's and the agent's own
// figures are their upper bounds.
void HangDetector::take(Record& record, const protocol::WorkerSample& sample, Instant now) {
  const auto gap = std::chrono::duration_cast<Millis>(now - record.seen);
  const Millis passed = record.known && gap <= longest_gap_ ? gap : Millis{0};
  const bool fresh = !record.known || sample.heartbeat.sequence != record.heartbeat.sequence;
  const bool moved = !record.known || (fresh && !same_visit(sample.heartbeat, record.heartbeat));
  record.seen = now;
  record.known = true;
  record.cpu = sample.cpu_ms;
  record.stopped = sample.stopped;
  record.quiet = millis(sample.quiet_ms);
  record.silent = std::min(fresh ? passed : record.silent + passed, record.quiet);
  const Millis visit = millis(sample.heartbeat.place_ms) + record.quiet;
  record.still = std::min(moved ? passed : record.still + passed, visit);
  if (sample.heartbeat.generation >= generation_) {
    record.unassigned = Millis{0};
  } else if (!holding_) {
    record.unassigned += passed;
  }
  if (fresh) record.cpu_when_seen = sample.cpu_ms;
  if (moved) record.cpu_when_moved = sample.cpu_ms;
  if (!fresh) return;
  record.heartbeat = sample.heartbeat;
  learn(record, sample.heartbeat);
  if (sample.heartbeat.step > stuck_step_ + kVerifiedSteps) stuck_times_ = 0;
}

void HangDetector::learn(Record& record, const protocol::WorkerHeartbeat& heartbeat) {
  if (heartbeat.generation < generation_ || heartbeat.steps == 0 || !(heartbeat.mean.step_us > 0)) return;
  if (record.first_step == 0) {  // including the first steps of a generation
    record.first_step = heartbeat.step;
    return;
  }
  record.samples[record.sample_count++ % kSamples] = heartbeat.mean.step_us;
  const std::size_t count = std::min(record.sample_count, kSamples);
  if (count < kEnough) return;
  std::array<double, kSamples> sorted = record.samples;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(count / 2);
  std::nth_element(sorted.begin(), middle, sorted.begin() + static_cast<std::ptrdiff_t>(count));
  record.median_us = *middle;
  common_us_ = *middle;
}

double HangDetector::learned_us(const Record& record) const {
  return record.median_us > 0 ? record.median_us : common_us_;
}

Millis HangDetector::limit(const Record& record, std::uint32_t factor) const {
  const double learned_ms = learned_us(record) / 1000;
  if (learned_ms <= 0) return settings_.hang_max;
  const double max = static_cast<double>(settings_.hang_max.count());
  const double min = std::min(static_cast<double>(settings_.hang_min.count()), max);
  const double narrow = std::clamp(learned_ms * settings_.hang_steps, min, max);
  return Millis(static_cast<std::int64_t>(std::min(narrow * factor, max)));
}

std::optional<HangDetector::Over> HangDetector::judge(WorkerId worker, const Record& record) const {
  const StepPlace place = record.heartbeat.place;
  if (const auto over = judge_lifeless(worker, record)) return over;
  if (holding_) return std::nullopt;
  if (record.heartbeat.phase != protocol::ProgramPhase::kNone) return judge_phase(record);
  if (const auto over = judge_unassigned(record)) return over;
  if (const auto over = judge_step(worker, record)) return over;
  const bool waits_for_assignment = place == StepPlace::kHalted && record.heartbeat.generation < generation_;
  if (record.still < settings_.hang_max || waits_for_assignment || waits_for_members(record)) return std::nullopt;
  const char* why =
      place == StepPlace::kOutside || place == StepPlace::kUpdating ? kUnannounced : "it makes no progress at all";
  return Over{record.still, settings_.hang_max, why, used(record.cpu, record.cpu_when_moved)};
}

// The program has said that this takes long, in a step or not; others may wait for it meanwhile.
std::optional<HangDetector::Over> HangDetector::judge_phase(const Record& record) const {
  if (record.still < settings_.phase_timeout) return std::nullopt;
  return Over{record.still, settings_.phase_timeout, "the phase that it announced does not end",
              used(record.cpu, record.cpu_when_moved)};
}

// Wherever it was: a process that is stopped or asleep as a whole does nothing.
std::optional<HangDetector::Over> HangDetector::judge_lifeless(WorkerId worker, const Record& record) const {
  const std::uint64_t cpu = used(record.cpu, record.cpu_when_seen);
  if (!record.stopped && !idle(cpu, record.silent)) return std::nullopt;
  const bool alone = records_.size() == 1;
  Millis max = limit(record, alone || !record.stopped ? kWide : 1);
  // However long a step is, a stopped process makes no progress on it.
  if (record.stopped && learned_us(record) <= 0) max = std::min(settings_.hang_max, settings_.hang_min * kUnlearned);
  if (record.silent < max) return std::nullopt;  // before the scan of all others: too expensive for each heartbeat
  if (!alone && !holding_ && !others_wait(worker, max / 2)) max = settings_.hang_max;
  if (record.silent < max) return std::nullopt;
  return Over{record.silent, max, record.stopped ? "it is stopped" : "it is silent and uses no CPU", cpu};
}

std::optional<HangDetector::Over> HangDetector::judge_step(WorkerId worker, const Record& record) const {
  const bool settled = record.first_step != 0 && record.heartbeat.step > record.first_step;
  const bool reduces_alone = record.heartbeat.place == StepPlace::kReducing && records_.size() == 1;
  if (!settled || !(inside_step(record.heartbeat.place) || reduces_alone) || sums_are_done(worker, record))
    return std::nullopt;
  const std::uint64_t cpu = used(record.cpu, record.cpu_when_moved);
  const bool works = !idle(cpu, record.still);
  const Millis max = limit(record, works ? kWideWithCpu : kWide);
  if (record.still < max) return std::nullopt;
  if (records_.size() > 1 && !others_wait(worker, max / 2)) return std::nullopt;
  return Over{record.still, max, works ? "its step does not end" : "its step makes no progress and it uses no CPU",
              cpu};
}

// Nobody waits for it in a collective of its step: those ahead have committed that, and wait for its next one. Between
// its sums and the commit a program saves, uploads and evaluates.
bool HangDetector::sums_are_done(WorkerId worker, const Record& record) const {
  if (record.heartbeat.place != StepPlace::kUpdating) return false;
  const auto is_ahead = [&](const auto& entry) {
    return entry.first != worker && entry.second.heartbeat.step > record.heartbeat.step;
  };
  return records_.size() == 1 || std::any_of(records_.begin(), records_.end(), is_ahead);
}

// The recovery has been committed and waits for this worker. What it may still do of the open step counts as part of a
// step.
std::optional<HangDetector::Over> HangDetector::judge_unassigned(const Record& record) const {
  if (record.unassigned.count() == 0 || may_take_long(record.heartbeat.place)) return std::nullopt;
  const std::uint64_t cpu = used(record.cpu, record.cpu_when_moved);
  const Millis max = limit(record, idle(cpu, record.still) ? kWide : kWideWithCpu) + assignment_time_;
  if (record.unassigned < max) return std::nullopt;
  return Over{record.unassigned, max, "it does not take its place among the others", cpu};
}

// In the all-reduce, or in the first assignment of a generation that others have not entered yet.
bool HangDetector::waits_for_members(const Record& record) const {
  if (record.heartbeat.place == StepPlace::kReducing) return records_.size() > 1;
  if (record.heartbeat.place != StepPlace::kStarting) return false;
  return std::any_of(records_.begin(), records_.end(), [&](const auto& entry) {
    return entry.second.heartbeat.generation < record.heartbeat.generation;
  });
}

bool HangDetector::others_wait(WorkerId worker, Millis min) const {
  return std::any_of(records_.begin(), records_.end(), [&](const auto& entry) {
    const Record& other = entry.second;
    return entry.first != worker && other.heartbeat.place == StepPlace::kReducing && !other.stopped &&
           other.still >= min;
  });
}

// Starts with the member that did not wait last time: as long as it does not wait, a look is O(1) at any world size.
bool HangDetector::everybody_waits(Millis min, Instant now) {
  const auto waits = [&](const auto& entry) {
    const Record& record = entry.second;
    const bool lives = record.known && !record.stopped && record.unassigned.count() == 0 &&
                       now - record.seen <= longest_gap_ - record.silent;
    const bool may_rest = record.heartbeat.phase != protocol::ProgramPhase::kNone;
    return lives && !may_rest && record.still >= min && !record.condemned && waits_for_members(record);
  };
  const auto first = records_.lower_bound(does_not_wait_);
  auto found = std::find_if_not(first, records_.end(), waits);
  if (found == records_.end()) {
    found = std::find_if_not(records_.begin(), first, waits);
    if (found == first) return true;
  }
  does_not_wait_ = found->first;
  return false;
}

void HangDetector::look_for_stuck(WorkerId worker, const Record& record, Instant now,
                                  std::vector<HangFinding>& findings) {
  if (stuck_reported_ || holding_ || records_.size() < 2 || record.heartbeat.place != StepPlace::kReducing) return;
  Millis max = limit(record, kWide);
  if (stuck_times_ > 0) max = std::max(max, std::min(kNetworkRetries, settings_.hang_max));
  if (record.still < max || !everybody_waits(max, now)) {
    if (record.still < max) stuck_suspected_.reset();
    return;
  }
  const Over over{record.still, max, "all workers wait in the all-reduce", used(record.cpu, record.cpu_when_moved)};
  if (!stuck_suspected_) {
    stuck_suspected_ = now;
    findings.push_back(describe(HangFinding::Kind::kStandstill, worker, record, over));
  }
  if (now - *stuck_suspected_ < kBetweenLooks) return;
  stuck_reported_ = true;
  stuck_step_ = record.heartbeat.step;
  HangFinding finding = describe(HangFinding::Kind::kStuck, WorkerId{}, record, over);
  finding.times = ++stuck_times_;
  findings.push_back(std::move(finding));
}

HangFinding HangDetector::describe(HangFinding::Kind kind, WorkerId worker, const Record& record,
                                   const Over& over) const {
  HangFinding finding;
  finding.kind = kind;
  finding.worker = worker;
  finding.why = over.why;
  finding.still_ms = static_cast<std::uint64_t>(over.still.count());
  finding.limit_ms = static_cast<std::uint64_t>(over.limit.count());
  finding.step_ms = static_cast<std::uint64_t>(learned_us(record) / 1000);
  finding.quiet_ms = static_cast<std::uint64_t>(record.quiet.count());
  finding.cpu_ms = over.cpu;
  finding.place = record.heartbeat.place;
  finding.step = record.heartbeat.step;
  return finding;
}

}  // namespace elastictrain::core
