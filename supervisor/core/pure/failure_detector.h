// Purpose: detectors of failures from reports and heartbeats: agents that are silent, and members that make no
// progress. Sans I/O.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "supervisor/core/pure/settings.h"
#include "supervisor/protocol/agent_messages.h"
#include "supervisor/protocol/ids.h"

// Classifies agents as healthy, suspect or dead from the arrival times of their reports. Sans I/O: the owner
// arms the timers that watch() and look() return, and calls look() when they fire.
//
// A verdict of dead takes two looks: one that finds a silence of `suspect` and a later one that finds a silence of
// `dead`. If our own loop was suspended, the reports that queued up meanwhile are read between the two, so that a late
// timer alone never condemns an agent.
//
// Ownership and thread: those of the state machine that holds it. Cost: O(1) for each arrival, one timer for each
// agent.

namespace elastictrain::core {

enum class Verdict : std::uint8_t { kHealthy, kSuspect, kDead };

class FailureDetector {
 public:
  struct Look {
    Verdict verdict = Verdict::kHealthy;
    bool changed = false;  // differs from the previous look
    Instant next;          // time of the next look
  };

  FailureDetector(Millis suspect, Millis dead) : suspect_(suspect), dead_(dead) {}

  // Starts watching; returns the time of the first look.
  Instant watch(AgentId agent, Instant now);
  // Returns true if the agent was suspected and no longer is.
  bool on_message(AgentId agent, Instant now);
  Look look(AgentId agent, Instant now);
  void forget(AgentId agent) { records_.erase(agent); }

  // The silence so far; zero for an agent that is not watched.
  Millis silence(AgentId agent, Instant now) const;

 private:
  struct Record {
    Instant last_seen;
    Verdict verdict = Verdict::kHealthy;
  };

  Look look_at_healthy(Record& record, Instant now) const;
  Look look_at_suspect(Record& record, Instant now) const;

  Millis suspect_;
  Millis dead_;
  std::unordered_map<AgentId, Record> records_;
};

// Finds members that make no progress, from their heartbeats. Sans I/O: heartbeats and the time go in,
// findings with the numbers behind them come out.
//
// In synchronous training one stalled worker stalls all. The guilty worker is the one that is not waiting in the
// all-reduce while another waits there. The time limit depends on how certain the evidence is; `limit` is hang_steps
// learned step times, at least hang_min and at most hang_max:
//   limit       the kernel reports the process as stopped: no step looks like that
//   4 x limit   the whole process is silent and uses no CPU; or heartbeats arrive, but the training thread is inside a
//               step and the process uses no CPU (a deadlock, a read that never returns). Also for a world of one, and
//               when all workers wait in the all-reduce (stuck). An overloaded machine delays a process for a while,
//               but the minimum here is four seconds with the default settings
//   10 x limit  the same while CPU is used: slow work, which an overloaded machine slows down further
//   + assignment_time a worker that has not taken its assignment in a generation that a recovery has committed, and
//   that is neither
//               between steps nor receiving its first state: added to 4 or 10 x limit, because it may finish the open
//               step first
//   phase_timeout  a phase that the program has announced (WorkerHeartbeat::phase), in a step or not. Only a process
//               that is stopped or silent as a whole is judged meanwhile
//   hang_max    everything else: no learned step time yet, starting, halted with its new assignment taken (it joins
//               again, from another worker's state), between steps (data, evaluation), a checkpoint,
//               behind the sums of a step (others have committed it, or there are none), no worker is delayed, all are
//               stopped at once. A worker that has its first assignment and waits for workers that have not taken
//               theirs counts as waiting in an all-reduce
// A verdict takes two looks, as in failure_detector.h: time without reports from a worker's agent does not count, and a
// suspicion is withdrawn when the worker moves. So neither a suspension of this process nor of the whole run condemns a
// worker.
//
// The learned step time is the median of a worker's recent means within its generation (without the first ones); until
// a worker has one, the median of the members so far.
//
// Ownership and thread: those of the state machine that holds it. Cost: O(1) per heartbeat, O(members) once a worker is
// over its limit.

struct HangFinding {
  enum class Kind : std::uint8_t {
    kSuspected,   // over its limit at one look
    kWithdrawn,   // moved after all
    kStandstill,  // all workers wait in the all-reduce and nothing moves, at one look
    kGuilty,      // over its limit at two looks
    kStuck,       // a standstill at two looks: the data plane is at fault, not a worker
  };
  Kind kind = Kind::kSuspected;
  WorkerId worker;  // none for kStuck; one of them for kStandstill
  std::string why;  // "it is stopped", for messages
  std::uint64_t still_ms = 0;
  std::uint64_t limit_ms = 0;
  std::uint64_t step_ms = 0;  // learned; 0: none yet
  std::uint64_t quiet_ms = 0;
  std::uint64_t cpu_ms = 0;  // used while it made no progress
  protocol::StepPlace place = protocol::StepPlace::kStarting;
  Step step = 0;
  std::uint32_t times = 0;  // kStuck: in a row, without kVerifiedSteps between
};

class HangDetector {
 public:
  static constexpr std::uint32_t kUnlearned = 10;    // times hang_min, for a stopped worker while no step time is known
  static constexpr std::uint32_t kWide = 4;          // times the limit, as above
  static constexpr std::uint32_t kWideWithCpu = 10;  // likewise
  static constexpr Step kVerifiedSteps = 100;        // after which standstills are counted anew
  // A network that stands still as a whole repairs itself within the retries of InfiniBand (NCCL_IB_TIMEOUT 20: 4.3 s,
  // NCCL_IB_RETRY_CNT 7), and then no host is at fault. A second standstill lasts at least as long, or hang_max.
  static constexpr Millis kNetworkRetries{31'000};

  // `longest_gap`: between two heartbeats of a worker whose agent is healthy. `assignment_time`: for the arrival of a
  // joiner's state.
  HangDetector(const FailureSettings& settings, Millis longest_gap, Millis assignment_time)
      : settings_(settings), longest_gap_(longest_gap), assignment_time_(assignment_time) {}

  // A generation begins: which workers are watched; step times learned so far become the members' common one. A worker
  // that has not moved since the last generation, or has not taken its assignment in it, keeps its elapsed time:
  // recoveries that follow one another must not hide their cause. The same number again changes nothing.
  void assignment(Generation generation, const std::vector<WorkerId>& members);
  // Also watches a worker that is about to become a member.
  void watch(WorkerId worker) { records_.try_emplace(worker); }
  void forget(WorkerId worker) { records_.erase(worker); }
  // Until the next assignment() a recovery waits for all answers: only workers whose whole process does nothing are
  // judged.
  void hold() { holding_ = true; }

  std::vector<HangFinding> on_sample(const protocol::WorkerSample& sample, Instant now);

  Millis learned_step() const { return Millis(static_cast<std::int64_t>(common_us_ / 1000)); }

 private:
  static constexpr std::size_t kSamples = 15;  // the newest means of a worker, of which the median is taken
  static constexpr std::size_t kEnough = 3;    // of them for a median

  struct Record {
    Instant seen;        // last heartbeat
    bool known = false;  // a heartbeat has arrived
    protocol::WorkerHeartbeat heartbeat;
    Millis still{0};        // at one place of one step
    Millis silent{0};       // without a new heartbeat
    Millis unassigned{0};   // in an older generation, while nothing else kept it from its assignment
    Millis quiet{0};        // the agent's own figure for the silence
    std::uint64_t cpu = 0;  // now
    std::uint64_t cpu_when_moved = 0;
    std::uint64_t cpu_when_seen = 0;
    bool stopped = false;
    Step first_step = 0;  // seen in this generation
    bool condemned = false;
    std::optional<Instant> suspected;
    std::array<double, kSamples> samples{};
    std::size_t sample_count = 0;  // all samples ever added
    double median_us = 0;          // 0: not enough samples
  };
  struct Over {
    Millis still;
    Millis limit;
    const char* why;
    std::uint64_t cpu;
  };

  void take(Record& record, const protocol::WorkerSample& sample, Instant now);
  void learn(Record& record, const protocol::WorkerHeartbeat& heartbeat);
  double learned_us(const Record& record) const;
  bool sums_are_done(WorkerId worker, const Record& record) const;
  Millis limit(const Record& record, std::uint32_t factor) const;
  std::optional<Over> judge(WorkerId worker, const Record& record) const;
  std::optional<Over> judge_phase(const Record& record) const;
  std::optional<Over> judge_lifeless(WorkerId worker, const Record& record) const;
  std::optional<Over> judge_step(WorkerId worker, const Record& record) const;
  std::optional<Over> judge_unassigned(const Record& record) const;
  bool waits_for_members(const Record& record) const;
  bool others_wait(WorkerId worker, Millis min) const;
  bool everybody_waits(Millis min, Instant now);
  void look_for_stuck(WorkerId worker, const Record& record, Instant now, std::vector<HangFinding>& findings);
  HangFinding describe(HangFinding::Kind kind, WorkerId worker, const Record& record, const Over& over) const;

  FailureSettings settings_;
  Millis longest_gap_;
  Millis assignment_time_;
  Generation generation_ = 0;
  std::map<WorkerId, Record> records_;
  double common_us_ = 0;  // the last median of any member
  std::optional<Instant> stuck_suspected_;
  WorkerId does_not_wait_{};     // at the last look at all members
  bool stuck_reported_ = false;  // kStuck was reported in this generation
  bool holding_ = false;
  std::uint32_t stuck_times_ = 0;
  Step stuck_step_ = 0;
};

const char* place_name(protocol::StepPlace place);

}  // namespace elastictrain::core
