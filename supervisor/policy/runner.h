// Purpose: asks the run's policy at its interval, with what the workers reported since the last time, and says what is
// to be written down and done about it. The same policies decide in the simulator; a journal replayed through here
// gives the same decisions.
//
// Ownership: owns the policy and its state. Thread: the supervisor's loop. Errors: a decision that makes no sense for
// the run is left out, with the reason why.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heuristics/policy/policy.h"
#include "supervisor/core/event.h"
#include "supervisor/core/run_view.h"
#include "supervisor/policy/observer.h"
#include "supervisor/protocol/message.h"

namespace elastictrain::policy {

struct RunnerSettings {
  std::string name = "fixed";
  heuristics::Parameters parameters;  // complete and checked
  heuristics::Parameters stragglers;  // of the policy that watches the workers; empty: as it says itself
  double interval_s = 1;
  double cool_down_s = 0;              // between two changes of the size that the policy wishes
  double hysteresis = 0;               // a wish must differ from the present size by this share …
  std::uint32_t hysteresis_views = 3;  // … or be repeated so often
  std::uint64_t seed = 0;
  ObserverSettings observer;
};

// The named policy for the size, with the watch over slow workers beside it.
std::unique_ptr<heuristics::Policy> make_policy(const RunnerSettings& settings);

// What a call of the policy came to.
struct Considered {
  std::string observed;  // the view, as JSON; without its members where they are too many for a journal
  heuristics::JobDecision decision;
  bool is_news = false;  // it changes something, or its reason is another than the last one
  std::vector<core::Event> events;
};

class Runner {
 public:
  explicit Runner(RunnerSettings settings);  // the policy of that name
  Runner(RunnerSettings settings, std::unique_ptr<heuristics::Policy> policy);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // Of fixed size, and nobody asked for more than a report of slow workers: looked at now and then.
  bool is_fixed() const;
  // The policy has something to say: what `status` shows.
  bool has_news() const;

  void planned(const protocol::GenerationPlan& plan);
  void heard(WorkerId worker, const protocol::WorkerHeartbeat& heartbeat, double now_s);
  bool is_due(double now_s) const { return now_s >= next_s_; }
  // Nothing while the run starts, changes or ends.
  std::optional<Considered> consider(const core::RunView& run, double now_s);

  // A view of an earlier supervisor, from the journal: the policy learns from it again.
  void replay(const heuristics::ClusterView& view);

  // Of the last call; empty before the first.
  const heuristics::Reason& last_reason() const { return last_reason_; }

 private:
  void add_events(const core::RunView& run, const heuristics::JobDecision& decision, Considered& considered) const;

  RunnerSettings settings_;
  std::unique_ptr<heuristics::Policy> policy_;
  std::unique_ptr<heuristics::PolicyState> state_;
  heuristics::Rng rng_;
  Observer observer_;
  double next_s_ = 0;
  heuristics::Reason last_reason_;
};

}  // namespace elastictrain::policy
