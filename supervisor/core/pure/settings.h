// Purpose: the settings of the run that the state machine needs, as checked values (the config is parsed elsewhere).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "heuristics/batch_plan.h"
#include "supervisor/core/pure/action.h"
#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/plan_messages.h"

namespace elastictrain::core {

using heuristics::AtLimit;
using heuristics::LearningRateRule;
using BatchSettings = heuristics::BatchRule;

struct LearningRateSettings {
  LearningRateRule rule = LearningRateRule::kNone;
  std::optional<double> factor;  // replaces the rule's
  double noise_scale = 0;        // of the gradients, in samples, for kAdaScale; 0: not known
  std::uint32_t ramp_steps = 0;
};

// What follows when a member is lost without a request to leave.
enum class OnFailure : std::uint8_t { kReplace, kShrink, kStop };

// The class under which a loss is counted.
enum class FailureClass : std::uint8_t { kCrash, kHang, kPreemption, kInfrastructure };

inline constexpr std::uint32_t kUnlimited = ~std::uint32_t{0};  // of a limit: any number
struct FailureSettings {
  OnFailure on_failure = OnFailure::kReplace;
  // Losses of a class that a run tolerates within `window` before it ends.
  std::uint32_t max_crashes = 10;                 // the program exited by itself: exit status, signal, out of memory
  std::uint32_t max_hangs = 10;                   // it was ended because it made no progress
  std::uint32_t max_infrastructure = kUnlimited;  // host, agent, network
  std::uint32_t max_fruitless = 3;                // recoveries in a row without a committed step between them
  std::uint32_t plain_restarts = 0;               // of all processes of a program that does not use the library
  Millis window{3'600'000};
  Millis wait_for_min{600'000};  // for hosts, when fewer than min_workers are left
  // From Abort to the last WorkerHalted, or twice the time of the last build; a worker that misses it is ended, if
  // another one that holds the state has answered.
  Millis halt_timeout{10'000};
  Millis reconnect_grace{300};  // for a broken connection when survivors report that its workers are gone
  Millis relaunch{1'000};       // minimum from the loss of a host that is still on the list to its new agent
  Millis cool_down{10'000};     // of a host after its second failure in a row; doubles with each
  Millis cool_down_max{600'000};

  bool detect_hangs = true;
  std::uint32_t hang_steps = 3;     // learned step times without progress …
  Millis hang_min{1'000};           // … but at least this long, and
  Millis hang_max{600'000};         // after this long in any case, also outside of a step
  Millis phase_timeout{3'600'000};  // of a phase that the program has announced
  Millis stacks_timeout{500};
};

// The status of a run that trained to its end with samples missing or repeated, or with unequal parameters.
inline constexpr int kStatusAuditFailed = 94;
inline constexpr int kStatusLastStateLost = 74;  // of a run that ended as it should: its last state is on no disk
inline constexpr int kStatusComeAgain = 75;

// How a run ends, for whoever started it.
struct RunResult {
  int status = 0;
  std::string reason;
};

struct RunSettings {
  std::string run_name;
  std::uint32_t min_workers = 1;
  std::uint32_t start_workers = 1;
  std::uint32_t max_workers = 1;
  std::uint32_t spares = 0;  // started, ready workers that wait
  bool keeps_warm = false;   // agents keep the processes of workers that a shrink has let go, for a while
  BatchSettings batch;
  bool batch_of_program = false;      // the program's own batch replaces batch.per_worker at the start
  std::uint32_t batch_of_user = 0;    // samples of one batch; a program may make a step from several
  std::uint32_t base_per_worker = 0;  // the batch that the learning rate was chosen for; 0: batch.per_worker
  LearningRateSettings learning_rate;
  protocol::Topology topology = protocol::Topology::kAuto;
  std::vector<std::uint32_t> parents;  // an explicit tree that replaces it, while it has as many ranks as the run
  protocol::Synchronization synchronization = protocol::Synchronization::kGradients;
  double averaging_weight = 0.1;
  FailureSettings failures;
  bool policy_sizes = false;     // a policy decides on the size: a user's resize holds against it
  bool leased = false;           // the run's slots are those that a cluster leases to it (LeaseGiven)
  bool has_checkpoints = false;  // a run that lost all its state can continue from one
  bool keeps_first = false;      // a program that may keep the RANK of its start: a lost rank 0 gets a successor
  // What is on disk, which only the caller knows, may give the end another status. Empty: never.
  std::function<RunResult(RunResult)> judge_end;

  // One rule more that every step must keep, for tests, which break it: what is broken in a step with these actions.
  std::function<std::optional<std::string>(const Actions&)> also_holds;

  // The host source is polled repeatedly, so waiting for hosts makes sense when too few answer at the start.
  bool hosts_may_appear = false;

  Millis start_timeout{60'000};  // until slots for start_workers are there; then the run starts with those available
  // A program that may be of fixed size, on hosts that come by themselves: once there are slots for min_workers, more
  // are waited for as long, up to start_workers. Hosts that it does not use are let go. 0: no such program, or other
  // hosts
  Millis last_call{0};
  // From spawn to ready; a worker that misses it is dropped from the plan. Applies once any worker of the run has sent
  // WorkerHello: a program that never does is a plain one, which counts as running from its spawn.
  Millis ready_timeout{60'000};
  Millis prepare_timeout{10'000};  // from Prepare to the last Prepared
  Millis grace{30'000};            // between TERM and KILL, and for a whole drain
  Millis suspect{1'000};           // silence after which an agent is suspected
  Millis dead{3'000};              // … and after which it is given up
  Millis resume_timeout{5'000};    // for the agents of a run that is taken over
};

}  // namespace elastictrain::core
