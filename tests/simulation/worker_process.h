// Purpose: a simulated worker: a real WorkerMachine, driven as the session drives it, and a training program around it
// whose parameters are a chain of hashes (parameters.h). The control thread receives messages and carries out effects.
// The training thread is a coroutine that reads like train/session/session_impl.cc.
//
// Ownership: the world. Thread: one.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/protocol/worker_messages.h"
#include "tests/simulation/data_plane.h"
#include "tests/simulation/network.h"
#include "tests/simulation/oracle.h"
#include "tests/simulation/parameters.h"
#include "tests/simulation/task.h"
#include "train/session/worker_machine.h"

namespace elastictrain::simulation {

class World;

class WorkerProcess {
 public:
  // `warm`: the process has started before, as another worker.
  WorkerProcess(World& world, WorkerId id, AgentId agent, Host& host, std::vector<std::string> environment, bool warm);
  ~WorkerProcess();

  void begin();
  void receive(const protocol::WorkerDown& message);  // through its socket
  void stop(Millis grace);                            // TERM, then KILL
  void die(int exit_code, int signal);
  void pause();
  void resume();
  void notice();  // TERM that does not come from its agent, which it survives once
  void hang();    // its training thread no longer continues

  WorkerId id() const { return id_; }
  Host& host() { return host_; }
  bool stopped() const { return paused_; }
  bool hangs() const { return hung_; }
  bool is_late() const { return late_since_.has_value(); }  // its ended collective holds it, and will let it go
  bool noticed() const { return noticed_; }
  bool trains() const { return machine_.in_loop(); }
  std::uint64_t cpu_ms() const;
  const session::WorkerMachine& machine() const { return machine_; }

 private:
  using Assignment = session::WorkerMachine::NextAssignment;
  using AssignmentKind = session::WorkerMachine::AssignmentKind;
  enum class Reduced : std::uint8_t { kDone, kRepeat, kDiscard, kEnd };
  enum class Entry : std::uint8_t { kIn, kAgain, kOut };

  struct Received {
    Generation generation = 0;
    state::Progress progress;
  };
  struct Receiving {
    std::size_t outstanding = 0;  // slices
    std::optional<Snapshot> header;
    bool failed = false;
  };

  // The control thread.
  void deliver(std::function<void()> work);
  void hear(const protocol::WorkerDown& message);
  void carry_out();
  void perform(const session::WorkerMachine::StartBuild& effect);
  void perform(const session::WorkerMachine::DropBuild& effect);
  void perform(const session::WorkerMachine::AbortAssignment& effect);
  void perform(const session::WorkerMachine::Say& effect);
  void perform(const session::WorkerMachine::WakeTraining& effect);
  void say(protocol::WorkerToAgent message);
  void heartbeat();
  bool others_train() const;

  // The training thread (training.cc, audits.cc).
  Task<> live();
  Task<Entry> get_in();
  Task<Entry> begin_first_generation();
  Task<Entry> join();
  Task<> train();
  Task<bool> run_step();  // false: the end
  Task<bool> finish();
  Task<Reduced> reduce(std::string what, bool of_step);
  Task<std::optional<Sum>> collective(Part part);
  Task<> end_collective();
  Task<bool> wait_for_header();
  bool sees_another_value() const;
  bool all_came_together() const;
  Task<Reduced> disagree();
  Task<Reduced> halted();
  Task<bool> rejoin();  // false: the end
  Task<bool> finish_transfers();
  Task<std::optional<Assignment>> next_assignment();
  Task<> sleep(Micros time);
  Task<> poked();
  void poke();

  void take(Assignment assignment);
  void send_state();
  void receive_state();
  void take_header(const Snapshot& header);
  void open_step();
  Part part_of_step(std::string what) const;
  void commit();
  bool cross_boundary();  // false: the end
  void remember_shares(const protocol::GenerationPlan& plan, bool first_step);
  void drop_lost_parts(const protocol::GenerationPlan& plan);
  bool part_counts(const state::WorkerShare& share) const;
  void audit(const CommittedStep& step);
  void audit_for_the_lost(const std::vector<WorkerId>& holders);
  void account_for_state(Generation generation, const state::Progress& progress);
  void send_audits();
  void leave(const protocol::GenerationPlan& plan);
  bool used_up() const;
  void checkpoint(bool in_background);
  void load_checkpoint();
  std::string lineage_in_environment() const;
  std::uint32_t rank() const;

  World& world_;
  const WorkerId id_;
  const AgentId agent_;
  Host& host_;
  const std::vector<std::string> environment_;
  const bool warm_;
  session::WorkerMachine machine_;
  bool paused_ = false;
  bool hung_ = false;
  std::optional<Instant> late_since_;
  bool says_held_ = false;
  bool stopping_ = false;
  bool noticed_ = false;
  bool notice_is_new_ = false;
  bool orphaned_ = false;
  bool dead_ = false;
  bool never_ready_ = false;
  std::deque<std::function<void()>> backlog_;
  Instant last_received_;
  std::map<Generation, protocol::GenerationPlan> plans_;  // builds that were begun
  std::uint64_t heartbeats_ = 0;
  Instant born_;
  std::uint64_t busy_us_ = 0;
  Instant place_since_;
  session::WorkerMachine::Place place_ = session::WorkerMachine::Place::kStarting;
  std::uint32_t steps_since_heartbeat_ = 0;
  Instant step_began_;
  Micros step_time_{0};

  // The program and its replicated state.
  Chain chain_ = 0;
  state::Progress progress_;
  std::vector<state::WorkerShare> next_shares_;
  state::Cut cut_;           // of the open step
  bool may_commit_ = false;  // a bucket of the open step is being reduced or has been, and none failed
  bool first_step_ = false;  // of the assignment
  protocol::GenerationPlan assignment_;
  std::optional<protocol::GenerationPlan> old_assignment_;  // closed once the new one has reduced
  std::optional<Receiving> receiving_;
  std::size_t sending_ = 0;
  Sum sum_;                                               // of the open step
  std::deque<protocol::AuditStep> recent_parts_;          // of all members; `state_hash` holds the worker
  protocol::WorkerAudit audits_;                          // of its own, that go with the next heartbeat
  std::vector<protocol::WorkerAudit> audits_for_others_;  // the same
  std::optional<Received> received_;                      // as a joiner, until it is told
  std::uint64_t audit_batch_ = 0;
  bool checkpoint_writing_ = false;
  WaitPoint wait_;
  bool poked_ = false;
  bool waits_for_poke_ = false;
  Task<> thread_;
  std::shared_ptr<char> life_ = std::make_shared<char>();
};

}  // namespace elastictrain::simulation
