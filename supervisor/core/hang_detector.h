// Purpose: finds members that make no progress, from what their heartbeats say. Sans I/O: pulses and the time go in,
// findings with the numbers behind them come out.
//
// In synchronous training all stand still when one does. Guilty is who is not waiting in the all-reduce while another
// waits there. How long is too long depends on how sure the evidence is; `limit` is hang_steps learned step times,
// at least hang_min and at most hang_max:
//   limit       the kernel calls the process stopped: no step looks like that
//   4 x limit   the whole process is silent and uses no CPU; or heartbeats come, but the training thread sits inside a
//               step and the process uses no CPU (a deadlock, a read that never returns); also for a world of one, and
//               for everybody waiting in the all-reduce (stuck). An overloaded machine delays a process for a while,
//               but the least of this is four seconds with the default settings
//   10 x limit  the same with CPU being used: slow work, which an overloaded machine makes slower still
//   + seat_time who has not taken its seat in a generation that a recovery has committed, although it is neither
//   between
//               steps nor receives its first state: added to 4 or 10 x limit, for the open step may be finished first
//   hang_max    everything else: no learned step time yet, starting, between steps (data, evaluation), a checkpoint,
//               nobody is held up, all are stopped at once. Who has its first seat and waits for those who have not
//               taken theirs waits as in an all-reduce
// A verdict takes two looks, as in failure_detector.h: time in which nothing was heard of a worker's agent counts for
// nothing, and what was suspected is withdrawn when it moves. So neither our own sleep nor a whole run that is
// suspended condemns anybody.
//
// The learned step time is the median of a worker's recent means within its generation (first ones left out), and until
// it has one, the one of the members so far.
//
// Ownership and thread: those of the state machine that holds it. Cost: O(1) for a pulse, O(members) once one is over
// its limit.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/core/settings.h"
#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/message.h"

namespace elastictrain::core {

struct HangFinding {
  enum class Kind : std::uint8_t {
    kSuspected,   // over its limit at one look
    kWithdrawn,   // moved after all
    kStandstill,  // everybody waits in the all-reduce and nothing moves, at one look
    kGuilty,      // over its limit at two looks
    kStuck,       // a standstill at two looks: the data plane, not a worker
  };
  Kind kind = Kind::kSuspected;
  WorkerId worker;  // none for kStuck; one of them for kStandstill
  std::string why;  // "it is stopped", for people
  std::uint64_t still_ms = 0;
  std::uint64_t limit_ms = 0;
  std::uint64_t step_ms = 0;  // learned; 0: none yet
  std::uint64_t quiet_ms = 0;
  std::uint64_t cpu_ms = 0;  // used while it stood still
  protocol::StepPlace place = protocol::StepPlace::kStarting;
  Step step = 0;
  std::uint32_t times = 0;  // kStuck: in a row, without kProvenSteps between
};

class HangDetector {
 public:
  static constexpr std::uint32_t kUnlearned = 10;  // times hang_min for a stopped worker while no step time is known
  static constexpr std::uint32_t kWide = 4;
  static constexpr std::uint32_t kWideWithCpu = 10;
  static constexpr Step kProvenSteps = 100;

  // `longest_gap`: between two pulses of a worker whose agent is well. `seat_time`: for the state of a joiner to
  // arrive.
  HangDetector(const FailureSettings& settings, Millis longest_gap, Millis seat_time)
      : settings_(settings), longest_gap_(longest_gap), seat_time_(seat_time) {}

  // A generation begins: who is watched, and what was learned becomes what others have learned. Who has not moved since
  // the last one, or not taken its seat in that, is no better off by it: recoveries that follow one another must not
  // hide their cause. The same number again changes nothing.
  void seat(Generation generation, const std::vector<WorkerId>& members);
  // Also watches a worker that is about to become a member.
  void watch(WorkerId worker) { records_.try_emplace(worker); }
  void forget(WorkerId worker) { records_.erase(worker); }
  // Until the next seat() a recovery waits for everybody's answers: judged is only whose process does nothing at all.
  void hold() { holding_ = true; }

  std::vector<HangFinding> heard(const protocol::WorkerPulse& pulse, Instant now);

  Millis learned_step() const { return Millis(static_cast<std::int64_t>(common_us_ / 1000)); }

 private:
  static constexpr std::size_t kSamples = 15;
  static constexpr std::size_t kEnough = 3;

  struct Record {
    Instant seen;        // last pulse
    bool known = false;  // there was one
    protocol::WorkerHeartbeat heartbeat;
    Millis still{0};        // in one place of one step
    Millis silent{0};       // without a new heartbeat
    Millis unseated{0};     // in an older generation, while nothing else kept it from its seat
    Millis quiet{0};        // the agent's own figure of it
    std::uint64_t cpu = 0;  // now
    std::uint64_t cpu_when_moved = 0;
    std::uint64_t cpu_when_heard = 0;
    bool stopped = false;
    Step first_step = 0;  // seen in this generation
    bool condemned = false;
    std::optional<Instant> suspected;
    std::array<double, kSamples> samples{};
    std::size_t sample_count = 0;  // all that were ever added
    double median_us = 0;          // 0: not enough samples
  };
  struct Over {
    Millis still;
    Millis limit;
    const char* why;
    std::uint64_t cpu;
  };

  void take(Record& record, const protocol::WorkerPulse& pulse, Instant now);
  void learn(Record& record, const protocol::WorkerHeartbeat& heartbeat);
  double learned_us(const Record& record) const;
  Millis limit(const Record& record, std::uint32_t factor) const;
  std::optional<Over> judge(WorkerId worker, const Record& record) const;
  std::optional<Over> judge_lifeless(WorkerId worker, const Record& record) const;
  std::optional<Over> judge_step(WorkerId worker, const Record& record) const;
  std::optional<Over> judge_unseated(const Record& record) const;
  bool waits_for_members(const Record& record) const;
  bool others_wait(WorkerId worker, Millis least) const;
  bool everybody_waits(Millis least, Instant now);
  void look_for_stuck(WorkerId worker, const Record& record, Instant now, std::vector<HangFinding>& findings);
  HangFinding describe(HangFinding::Kind kind, WorkerId worker, const Record& record, const Over& over) const;

  FailureSettings settings_;
  Millis longest_gap_;
  Millis seat_time_;
  Generation generation_ = 0;
  std::map<WorkerId, Record> records_;
  double common_us_ = 0;  // the last median of any member
  std::optional<Instant> stuck_suspected_;
  WorkerId does_not_wait_{};  // at the last look at all members
  bool stuck_told_ = false;   // in this generation
  bool holding_ = false;
  std::uint32_t stuck_times_ = 0;
  Step stuck_step_ = 0;
};

const char* place_name(protocol::StepPlace place);

}  // namespace elastictrain::core
