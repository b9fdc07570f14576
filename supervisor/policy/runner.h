// Purpose: asks the run's policy at its interval, with what the workers reported since the last time, and says what is
// to be written down and done about it. The same policies decide in the simulator; a journal replayed through here
// gives the same decisions.
//
// Ownership: owns the policy and its state, or the program that stands for them. Thread: the supervisor's loop. Errors:
// a decision that makes no sense for the run is left out, with the reason why; a policy from outside that does not work
// keeps the size.
#pragma once

#include <asio/io_context.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heuristics/policy/policy.h"
#include "supervisor/core/event.h"
#include "supervisor/core/run_view.h"
#include "supervisor/policy/noise_watch.h"
#include "supervisor/policy/observer.h"
#include "supervisor/policy/outside.h"
#include "supervisor/policy/program.h"
#include "supervisor/protocol/message.h"

namespace elastictrain::policy {

// A policy that decides on other things than the size.
struct Companion {
  std::string name;
  heuristics::Parameters parameters;  // complete and checked
};

struct RunnerSettings {
  std::string name = "fixed";
  heuristics::Parameters parameters;  // complete and checked
  std::vector<Companion> companions;
  heuristics::Parameters stragglers;  // of the policy that watches the workers; empty: as it says itself
  double interval_s = 1;
  double cool_down_s = 0;              // between two changes of the size that the policy wishes
  double hysteresis = 0;               // a wish must differ from the present size by this share …
  std::uint32_t hysteresis_views = 3;  // … or be repeated so often
  std::uint64_t seed = 0;
  Outside outside;  // in place of the policy of that name
  heuristics::LearningRateRule learning_rate = heuristics::LearningRateRule::kNone;
  ObserverSettings observer;
};

// The policy that decides on the size (the named one, if none is given), with its companions and the watch over slow
// workers beside it.
std::unique_ptr<heuristics::Policy> make_policy(const RunnerSettings& settings,
                                                std::unique_ptr<heuristics::Policy> for_size = nullptr);

// What users are shown: its name, its file, or its words.
std::string display_name(const RunnerSettings& settings);

// What a call of the policy came to.
struct Considered {
  std::string observed;  // the view, as JSON; without its members where they are too many for a journal
  heuristics::JobDecision decision;
  bool is_news = false;  // it changes something, or its reason is another than the last one
  std::vector<core::Event> events;
  std::string failure;  // the first time that a policy from outside did not work: what was wrong
};

class Runner {
 public:
  explicit Runner(RunnerSettings settings);  // the policy of that name; one from outside needs open()
  Runner(RunnerSettings settings, std::unique_ptr<heuristics::Policy> policy);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  struct Handlers {
    std::function<void()> answered;                     // a program has: take_answer()
    std::function<void(const std::string& line)> said;  // by a program, for people
  };
  // Loads or starts a policy from outside; any other is there already.
  Status open(asio::io_context& io, Handlers handlers);
  // No more views will follow: a program is told, and may take its time-out to end.
  void close();
  bool any_process() const { return program_ && program_->is_running(); }

  // Of fixed size, and nobody asked for more than a report of slow workers: looked at now and then.
  bool is_fixed() const;
  // The policy has something to say: what `status` shows.
  bool has_news() const;

  void planned(const protocol::GenerationPlan& plan);
  void heard(WorkerId worker, const protocol::WorkerHeartbeat& heartbeat, double now_s);
  bool is_due(double now_s) const { return now_s >= next_s_; }
  // Nothing while the run starts, changes or ends, or while a program still thinks. What a program is asked has no
  // decision yet, and is no news.
  std::optional<Considered> consider(const core::RunView& run, double now_s);

  // What a program came to since it was asked, without `observed`; nothing if there is nothing new.
  std::optional<Considered> take_answer(const core::RunView& run);

  // A view of an earlier supervisor, from the journal: the policy learns from it again.
  void replay(const heuristics::ClusterView& view);

  // Of the last call; empty before the first.
  const heuristics::Reason& last_reason() const { return last_reason_; }

 private:
  void settle(const core::RunView& run, heuristics::Decision decision, Considered& considered);
  void add_noise(Considered& considered);
  void add_events(const core::RunView& run, const heuristics::JobDecision& decision, Considered& considered) const;
  void answer(heuristics::Decision decision);
  bool is_thinking() const;

  RunnerSettings settings_;
  std::unique_ptr<heuristics::Policy> policy_;
  std::unique_ptr<heuristics::PolicyState> state_;
  heuristics::Rng rng_;
  Observer observer_;
  NoiseWatch noise_;
  double next_s_ = 0;
  heuristics::Reason last_reason_;
  bool has_warned_ = false;
  std::function<void()> answered_;
  std::optional<heuristics::ClusterView> asked_;  // about which a program has not been heard to its end
  bool has_answer_ = false;
  std::shared_ptr<heuristics::Decision> relayed_;  // what the program said last
  std::unique_ptr<Program> program_;
};

}  // namespace elastictrain::policy
