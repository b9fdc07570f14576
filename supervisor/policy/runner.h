// Purpose: asks the run's policy at its interval, with the workers' reports since the last time, and returns what to
// record and to do. The same policies decide in the simulator; a journal replayed through this class gives the same
// decisions.
//
// Ownership: owns the policy and its state, or the program in its place. Thread: the supervisor's loop. Errors: a
// decision that makes no sense for the run is dropped, with the reason; an external policy that does not work keeps the
// size.
#pragma once

#include <asio/io_context.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heuristics/policy/policy.h"
#include "supervisor/core/pure/event.h"
#include "supervisor/core/pure/run_view.h"
#include "supervisor/policy/observer.h"
#include "supervisor/policy/program.h"
#include "supervisor/policy/runner_settings.h"
#include "supervisor/protocol/worker_messages.h"

namespace elastictrain::policy {

// The result of a call of the policy.
struct Considered {
  std::string observed;  // the view, as JSON; without its members if they are too many for a journal
  heuristics::JobDecision decision;
  bool is_news = false;  // it changes something, or its reason differs from the last one
  std::vector<core::Event> events;
  std::string failure;  // the first time that an external policy did not work: what was wrong
};

class Runner {
 public:
  explicit Runner(RunnerSettings settings);  // the policy of that name; an external one needs open()
  Runner(RunnerSettings settings, std::unique_ptr<heuristics::Policy> policy);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  struct Handlers {
    std::function<void()> answered;                        // a program has answered: take_answer()
    std::function<void(const std::string& line)> on_line;  // a line of a program, for people
  };
  // Loads or starts an external policy; any other is already there.
  Status open(asio::io_context& io, Handlers handlers);
  // No more views will follow: a program is notified, and may take its time-out to exit.
  void close();
  bool any_process() const;

  // The size is fixed, and only reports of slow workers were requested: looked at occasionally.
  bool is_fixed() const;
  // The policy has a decision: what `status` shows.
  bool has_news() const;

  void planned(const protocol::GenerationPlan& plan);
  void on_heartbeat(WorkerId worker, const protocol::WorkerHeartbeat& heartbeat, double now_s);
  void on_cpu_time(WorkerId worker, std::uint64_t cpu_ms, double now_s);
  bool is_due(double now_s) const { return now_s >= next_s_; }
  // Nothing while the run starts, changes or ends, or while a program is still deciding. A view that was passed to a
  // program has no decision yet and is not news.
  std::optional<Considered> consider(const core::RunView& run, double now_s);

  // The decision of a program since it was asked, without `observed`; nothing if there is no new one.
  std::optional<Considered> take_answer(const core::RunView& run);

  // A view of an earlier supervisor, from the journal: the policy learns from it again.
  void replay(const heuristics::ClusterView& view);

  // Of a run that does not say how long it trains; nothing of one that does, or whose loss is not known.
  std::optional<heuristics::ExpectedLength> expected_length(const core::RunView& run) const;
  // Why there is none; empty where the run says it, and where no loss is reported.
  std::string no_expected_length(const core::RunView& run) const;

  // At each size, as the policy has said last; empty: it does not.
  const std::vector<heuristics::GoodputAt>& goodput() const { return goodput_; }

  // Of the last call; empty before the first.
  const heuristics::Reason& last_reason() const { return last_reason_; }
  Economy economy() const { return observer_.economy(); }

 private:
  Status open_program(asio::io_context& io, std::function<void(const std::string& line)> on_line);
  bool has_utility(const core::RunView& run, double now_s);
  void note_lost_utility(Considered& considered);
  void settle(const core::RunView& run, heuristics::Decision decision, Considered& considered);
  void add_noise(Considered& considered);
  void add_events(const core::RunView& run, const heuristics::JobDecision& decision, Considered& considered) const;
  void answer(heuristics::Decision decision);
  bool is_thinking() const;
  bool may_decide(const core::RunView& run) const;

  RunnerSettings settings_;
  std::unique_ptr<heuristics::Policy> policy_;
  std::unique_ptr<heuristics::PolicyState> state_;
  heuristics::Rng rng_;
  Observer observer_;
  NoiseWatch noise_;
  heuristics::Convergence convergence_;
  double next_s_ = 0;
  heuristics::Reason last_reason_;
  std::vector<heuristics::GoodputAt> goodput_;
  bool has_warned_ = false;
  bool has_warned_of_utility_ = false;
  std::function<void()> answered_;
  std::optional<heuristics::ClusterView> asked_;  // the view to which a program has not answered completely
  bool has_answer_ = false;
  std::shared_ptr<heuristics::Decision> relayed_;  // the program's last decision
  std::unique_ptr<Program> program_;
  std::unique_ptr<UtilityProgram> utility_;
};

}  // namespace elastictrain::policy
