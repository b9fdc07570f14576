// Purpose: agent and supervisor of a run in one, driven by the test: a Unix socket that real workers (child processes)
// connect to, the messages they sent, and the plans that a test makes.
//
// Thread: the test's only one, so that forking is safe. Errors: a wait that takes too long throws, and the destructor
// leaves no process behind.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "supervisor/protocol/codec.h"
#include "supervisor/protocol/limits.h"
#include "supervisor/protocol/worker_messages.h"
#include "test_worker.h"

namespace elastictrain::test {

struct WorkerRecord {
  pid_t pid = 0;
  int fd = -1;
  protocol::FrameReader reader{limits::kMaxWorkerFrameBytes};
  int hellos = 0;
  std::optional<protocol::WorkerReady> ready;
  std::set<Generation> prepared;
  std::map<Generation, std::string> prepare_failed;
  std::map<Generation, protocol::WorkerActive> active;
  std::optional<protocol::WorkerLeft> left;
  std::optional<protocol::WorkerParked> parked;
  std::optional<protocol::WorkerFinished> finished;
  protocol::WorkerHeartbeat heartbeat;
  int still = 0;                           // so many heartbeats in a row have told of the same place in the same step
  protocol::WorkerHeartbeat norms;         // the last one with gradient norms
  std::vector<protocol::AuditStep> audit;  // as reported by itself
  std::map<WorkerId, std::vector<protocol::AuditStep>> notified_for;  // as reported by others
  std::vector<protocol::AuditStep> notified_of_state;
  std::vector<protocol::WorkerHalted> halts;
  std::map<std::string, std::string> notes;
  std::string declines;
  std::vector<protocol::WorkerRequest> requests;
  std::map<Generation, protocol::WorkerSwap> swaps;
  std::optional<int> exit_code;  // 128 + signal if killed
  bool is_of_pool = false;       // started by MPI's launcher
};

// For a worker that MPI's launcher started, whose status only the launcher knows.
inline constexpr int kExitOfPool = 1000;

class FakeRun {
 public:
  explicit FakeRun(TestWorkerOptions options = {});
  ~FakeRun();
  FakeRun(const FakeRun&) = delete;
  FakeRun& operator=(const FakeRun&) = delete;

  // Workers that average in pairs meet so often, and steps may be skipped.
  void take_rounds(int round_ms) {
    set_environment("ELASTICTRAIN_ROUND_MS", std::to_string(round_ms));
    takes_rounds_ = true;
  }
  void set_environment(const std::string& name, const std::string& value) { environment_[name] = value; }
  WorkerId spawn() { return spawn(options_); }
  WorkerId spawn(const TestWorkerOptions& options);
  // As many workers, of numbers from 1, as ranks of one MPI launch: `launch` begins the command line of each.
  std::vector<WorkerId> spawn_pool(std::uint32_t ranks, const std::vector<std::string>& launch);
  // The launcher's status, once it has ended.
  int wait_launcher();
  // Spawns and waits until the worker is ready.
  WorkerId spawn_ready() { return spawn_ready(options_); }
  WorkerId spawn_ready(const TestWorkerOptions& options);
  std::vector<WorkerId> spawn_ready(int count, const TestWorkerOptions& options);
  std::vector<WorkerId> spawn_ready(int count) { return spawn_ready(count, options_); }
  WorkerRecord& operator[](WorkerId worker) { return workers_.at(worker); }
  const std::map<WorkerId, WorkerRecord>& workers() const { return workers_; }
  const std::map<Generation, protocol::GenerationPlan>& committed() const { return committed_; }

  // Donors are all survivors, joiners those that were not members before. Shares: 8 for everyone, or as given.
  protocol::GenerationPlan plan(const std::vector<WorkerId>& members, const std::vector<std::uint32_t>& shares = {});
  // Of the plans from now on.
  void synchronize_by(protocol::Synchronization synchronization) { synchronization_ = synchronization; }
  void prepare(const protocol::GenerationPlan& plan) { prepare_for(plan, addressees(plan)); }
  void prepare_for(const protocol::GenerationPlan& plan, const std::vector<WorkerId>& workers);
  void wait_prepared(const protocol::GenerationPlan& plan);
  void commit(const protocol::GenerationPlan& plan);
  void wait_swapped(const protocol::GenerationPlan& plan);
  void cancel(const protocol::GenerationPlan& plan);
  // All of the above in order.
  void change_to(const std::vector<WorkerId>& members, const std::vector<std::uint32_t>& shares = {});
  void stop() { change_to({}); }
  void dismiss(WorkerId worker);
  void wait_parked(WorkerId worker);
  // The process of a parked worker becomes the next one, and is ready.
  WorkerId reassign(WorkerId parked);
  void wait_exit(WorkerId worker);
  void wait_all_exited();
  void wait_step(WorkerId worker, Step step);
  void wait_until(const std::function<bool()>& condition, const std::string& what);
  void close_socket(WorkerId worker);
  void stop_listening();

  // What workers that ask are told from now on; nothing: they get no answer.
  void tell_epoch(std::optional<std::uint64_t> epoch) { run_epoch_ = epoch; }

  // Whether what arrives for the board is answered. Values that are not are lost, as with a supervisor that is away.
  void answer_board(bool answers) { answers_board_ = answers; }
  const std::map<std::string, std::string>& board() const { return board_; }

  void let_go();  // workers that wait in a Moment

  // --- Losses. Kills and waits for the end.
  void kill(WorkerId worker);
  // Tells all live members to halt and waits for their answers.
  Generation abort();
  void send_abort(Generation fence, const std::vector<WorkerId>& workers);
  void wait_halted(Generation fence, const std::vector<WorkerId>& workers);
  Generation new_fence() { return ++last_number_; }
  void set_members(const std::vector<WorkerId>& members) { members_ = members; }
  // The next plans follow this one, which was committed by hand.
  void follow(const protocol::GenerationPlan& plan) { generation_ = plan.generation; }
  void add_member(WorkerId worker) { members_.push_back(worker); }
  void commit_for(const protocol::GenerationPlan& plan, const std::vector<WorkerId>& workers);
  void tell_orphaned(WorkerId worker);
  // No member is newer than the others.
  void tell_disagreed(WorkerId worker, const std::string& reason);
  // Prepare and commit.
  void recover_with(const protocol::GenerationPlan& plan);
  // From the answers to `fence`: the workers with the state, all others in the loop as joiners, and `spares`.
  protocol::GenerationPlan recovery_plan(Generation fence, const std::vector<WorkerId>& spares = {});
  // abort(), then prepare and commit of the recovery plan. If no worker with the state is left, none is a member.
  void recover(const std::vector<WorkerId>& spares = {});
  // A generation of three workers, of which the last one dies in its sixth step; the others recover, with a spare or
  // without one.
  std::vector<WorkerId> lose_last_of_three(Moment::Where where, bool with_spare);
  std::vector<WorkerId> living() const;
  const protocol::WorkerHalted& answer(WorkerId worker, Generation fence) const;

  const std::string& directory() const { return directory_; }
  const std::vector<WorkerId>& members() const { return members_; }
  // The members of the newest generation and its number, after a commit.
  Generation generation() const { return generation_; }

  // Checks that must hold for any run: bit-identical states, exactly-once positions, members only, no restart.
  void check_audit() const;
  // All members end as asked, and the above holds.
  void stop_and_check();
  // What a worker noted of the step of TestWorkerOptions::note_gradient_of_step. Throws if it noted none.
  double noted_gradient(WorkerId worker, std::size_t parameter) {
    return std::stod(workers_.at(worker).notes.at("gradient" + std::to_string(parameter)));
  }

 private:
  protocol::GenerationPlan new_plan();
  void set_environment_of_child() const;
  void child(const TestWorkerOptions& options, WorkerId worker);
  void pump(int timeout_ms);
  // False: nobody has said anything.
  bool listen_to_workers(int timeout_ms);
  void accept_one();
  void read_from(int fd);
  void record(WorkerRecord& worker, protocol::WorkerToAgent message);
  void reap();
  void send(WorkerId worker, const protocol::WorkerDown& message);
  void hear_for_board(const WorkerRecord& worker, const protocol::BoardPut& put);
  void hear_for_board(const WorkerRecord& worker, const protocol::BoardGet& get);
  void answer_questions();
  static void send_to(const WorkerRecord& worker, const protocol::WorkerDown& message);
  std::vector<WorkerId> addressees(const protocol::GenerationPlan& plan) const;

  TestWorkerOptions options_;
  std::map<std::string, std::string> environment_;
  std::string directory_;
  int listener_ = -1;
  pid_t launcher_ = 0;                              // of a pool
  std::map<int, protocol::FrameReader> strangers_;  // connected, no Hello yet
  std::map<WorkerId, WorkerRecord> workers_;
  std::vector<WorkerId> members_;
  Generation generation_ = 0;
  Generation last_number_ = 0;
  std::optional<std::uint64_t> run_epoch_ = 0;
  bool answers_board_ = true;
  std::map<std::string, std::string> board_;
  std::vector<std::pair<const WorkerRecord*, protocol::BoardGet>> board_questions_;
  std::map<Generation, protocol::GenerationPlan> committed_;
  std::vector<protocol::Fence> fences_;
  bool takes_rounds_ = false;
  protocol::Synchronization synchronization_ = protocol::Synchronization::kGradients;
};

}  // namespace elastictrain::test
