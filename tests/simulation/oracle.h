// Purpose: the invariants of every simulated run, as named checks over all that is visible from outside: the
// supervisor's messages and journal, the workers' messages and actions, the samples. The first failed check ends the
// run.
//
// The surviving history is the list of committed steps that count: one generation after the other, each from its first
// step on, whatever older generations still do.
// Ownership: the world. Thread: one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "supervisor/core/pure/action.h"
#include "supervisor/core/pure/ledger.h"
#include "supervisor/protocol/worker_messages.h"
#include "tests/simulation/parameters.h"

namespace elastictrain::simulation {

struct CommittedStep {
  Generation generation = 0;
  Step step = 0;
  Chain before = 0;
  Chain after = 0;
  Counted counted;
};

struct CheckpointFacts {
  Generation generation = 0;
  Step step = 0;
  Chain chain = 0;
};

class Oracle {
 public:
  explicit Oracle(std::uint64_t samples_per_epoch) : samples_(samples_per_epoch) {}

  struct Violation {
    std::string check;
    std::string text;
  };
  const std::optional<Violation>& violation() const { return violation_; }
  void violated(const std::string& check, const std::string& text);

  // --- The supervisor
  void journaled(const core::Journal& record);
  // `known`: the workers that the supervisor counts on.
  void sends(const protocol::WorkerDown& message, const std::set<WorkerId>& known);
  void addresses(WorkerId worker);
  void delivered(WorkerId worker, const protocol::WorkerUp& message);
  void asked(std::uint64_t request);
  void replied(std::uint64_t request);
  void forget_requests() { open_requests_.clear(); }  // a request to a lost supervisor gets no answer

  // --- Workers
  void started(WorkerId worker);
  void gone(WorkerId worker);
  void dismissed(WorkerId worker, bool trains);
  void prepared(WorkerId worker, Generation generation);
  void assigned(WorkerId worker, const protocol::GenerationPlan& plan);
  void begins(Generation generation, Step first_step);
  // The same of one that begins from a checkpoint or from nothing. Older generations that nobody has stopped may go on,
  // and count, until it commits a step, has written its fence, or the supervisor knows that it has begun.
  void begins_afresh(Generation generation, Step first_step);
  void writes_fence(Generation generation);
  // The run stops after a loss: a later step that a worker of the halted generation has committed does not count.
  void stops(Generation generation, Step last_step);  // reports of older generations from this step on are void
  void answers(WorkerId worker, const protocol::WorkerHalted& message, bool settled, Step really_committed);
  void passes(WorkerId worker, Step step, const Counted& part);  // computes a gradient
  void commits(WorkerId worker, const CommittedStep& step);
  void receives_state(WorkerId worker, const protocol::GenerationPlan& plan, Step step, Chain chain);

  // --- Checkpoints
  void writes_checkpoint(WorkerId worker, const CheckpointFacts& written);
  void reads_checkpoint(WorkerId worker, const std::optional<CheckpointFacts>& read,
                        const std::vector<CheckpointFacts>& complete);

  // --- At the end of a run
  void check_complete(std::uint64_t epochs, Step max_steps);
  void check_all_answered();
  void check_ledger_repeats_nothing();
  void check_ledger_agrees();
  Step surviving_steps() const { return history_.size(); }
  bool is_void(Generation generation, Step step) const;

 private:
  struct Plan {
    protocol::GenerationPlan plan;
    std::set<WorkerId> prepared;
    bool committed = false;
    bool cancelled = false;
  };
  struct Worker {
    bool alive = true;
    bool greeted = false;  // its hello reached a supervisor
    Generation assignment = 0;
    Generation given_up = 0;          // it has declared that it takes part in no collective up to this generation
    protocol::WorkerHalted received;  // its last answer that reached the supervisor
    Step passed = 0;                  // last step that it computed a gradient for
  };

  void check_number_is_new(Generation number, const std::string& what);
  void check_ranks_are_dense(const protocol::GenerationPlan& plan);
  void check_plan(const protocol::GenerationPlan& plan, const std::set<WorkerId>& known);
  void check_recovery_members(const protocol::GenerationPlan& plan);
  void check_state_is_latest(const protocol::GenerationPlan& plan, const std::set<WorkerId>& known);
  void check_restart(const protocol::GenerationPlan& plan, const std::set<WorkerId>& known);
  void check_all_prepared(const Plan& plan);
  void check_journaled(const std::string& event, Generation generation);
  void check_assigned_once(WorkerId worker, const protocol::GenerationPlan& plan);
  void check_bit_identity(WorkerId worker, const CommittedStep& step);
  void check_behind_no_fence(WorkerId worker, const CommittedStep& step);
  void check_exactly_once(const CommittedStep& step);
  void check_ledger(const char* name, std::uint64_t value);
  // By the plan of a later generation, which is part of each lineage although nobody may have taken it.
  bool is_fenced_by_plan(Generation generation, Step step) const;
  void cut_history(Step last);
  void append(const CommittedStep& step);

  std::uint64_t samples_;
  std::optional<Violation> violation_;
  std::map<Generation, Plan> plans_;
  Generation highest_number_ = 0;
  std::set<Generation> fences_;
  std::map<Generation, Step> first_steps_;
  std::set<Generation> tentative_;  // of these, those that make nothing void yet
  std::set<std::pair<std::string, Generation>> journaled_;
  std::map<WorkerId, Worker> workers_;
  std::vector<CommittedStep> history_;  // index = step - 1
  std::map<std::pair<Generation, Step>, Chain> chains_;
  std::map<std::uint64_t, core::IntervalSet> epochs_;
  std::set<std::uint64_t> open_requests_;
  std::map<std::string, std::uint64_t> audit_;  // the last summary in the journal
};

}  // namespace elastictrain::simulation
