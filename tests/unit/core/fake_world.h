// Purpose: hosts, agents and workers that behave like real ones towards a state machine, with random delays and faults,
// all from one seed and without a clock. Messages of one worker stay in order, as on its connection; all others may
// occur in any order.
//
// The world checks what the state machine cannot see itself: that a commit comes only after all members have prepared,
// that a worker trains in one generation at a time, that no member is dismissed and no healthy one stopped, that a
// recovery continues from the newest state of any worker, that each request gets one answer.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "supervisor/core/membership.h"

namespace elastictrain::core {

struct WorldFaults {
  double launch_fails = 0;  // an agent never comes up
  double spawn_fails = 0;
  double joiner_dies = 0;    // before it is ready, or while it prepares
  double joiner_hangs = 0;   // never ready
  double prepare_fails = 0;  // for one member, once
  double halt_hangs = 0;     // a member never answers an Abort
};

class FakeWorld {
 public:
  FakeWorld(std::uint64_t seed, RunSettings settings, WorldFaults faults);

  void offer(std::vector<HostSlots> hosts);
  std::uint64_t request_resize(std::uint32_t target);
  std::uint64_t request_replace(std::uint32_t rank);
  std::uint64_t request_replace_host(const std::string& host);
  std::uint64_t request_drain(const std::string& host);
  void request_stop(StopCause cause);
  // Unplanned losses of a random process; no effect if there is none.
  void kill_somebody();
  WorkerId notice_member();           // the first TERM that does not come from its agent; without a worker: 0
  void notice_somebody();             // a member or not
  void break_collective();            // a member halts although all workers are alive
  void kill_agent();                  // with its workers
  void break_connection(Millis gap);  // of an agent, which comes back after it
  void heal_connections();
  void finish();  // the program ends once all members train

  void run_for(Millis time);
  void no_more_faults() { faults_ = {}; }

  const Membership& machine() const { return machine_; }
  std::mt19937_64& random() { return random_; }
  std::uint32_t pick(std::uint32_t below) { return static_cast<std::uint32_t>(random_() % below); }
  std::optional<int> exit_status() const { return exit_status_; }
  bool all_answered() const { return open_requests_.empty(); }
  std::size_t living_workers() const { return workers_.size(); }
  bool lives(WorkerId worker) const { return workers_.contains(worker); }
  const std::vector<std::string>& violations() const { return violations_; }
  const std::vector<std::string>& story() const { return story_; }

 private:
  struct FakeAgent {
    bool connected = false;
    std::uint32_t connection = 0;                // counts
    std::vector<std::function<void()>> waiting;  // messages of its workers while it was cut off
  };

  struct FakeWorker {
    WorkerId id;
    AgentId agent;
    bool listens = false;                          // said hello
    bool doomed = false;                           // will fail as a joiner
    bool suspicious = false;                       // has given a reason to end it
    std::optional<protocol::GenerationPlan> plan;  // prepared or being prepared
    bool prepared = false;
    Generation committed = 0;  // Commit received
    Generation seat = 0;
    Generation fence = 0;
    bool in_loop = false;
    bool has_state = false;
    Step step = 0;  // the last it committed
    bool exiting = false;
    bool noticed = false;
    Instant last_up;  // keeps its messages in order
    Instant last_down;

    bool halted() const { return seat <= fence; }
  };

  bool chance(double probability) { return std::uniform_real_distribution<>(0, 1)(random_) < probability; }
  Millis delay(std::uint32_t most_ms) { return Millis(1 + pick(most_ms)); }
  void at(Instant when, std::function<void()> what) { queue_.emplace(when, std::move(what)); }
  void feed(const Event& event);
  std::uint64_t ask(Event event, std::uint64_t request);
  void violation(const std::string& text) { violations_.push_back(text); }

  void perform(const LaunchAgent& action);
  void perform(const StopAgent& action);
  void perform(const SpawnWorker& action);
  void perform(const StopWorker& action);
  void perform(const SendToWorkers& action);
  void perform(const ArmTimer& action);
  void perform(const CancelTimer& action);
  void perform(const Journal& action);
  void perform(const Reply& action);
  void perform(const Tell&) {}
  void perform(const AskAgent&) {}
  void perform(const EndRun& action);

  void say(FakeWorker& worker, protocol::WorkerUp message, Millis after);
  void exit_worker(FakeWorker& worker, int code, int signal, Millis after);
  void deliver(WorkerId id, const protocol::WorkerDown& message);
  void receive(FakeWorker& worker, const protocol::Prepare& message);
  void receive(FakeWorker& worker, const protocol::Commit& message);
  void receive(FakeWorker& worker, const protocol::Cancel& message);
  void receive(FakeWorker& worker, const protocol::Dismiss& message);
  void receive(FakeWorker&, const protocol::Orphaned&) {}  // never from the supervisor
  void receive(FakeWorker&, const protocol::Reseated&) {}  // nor this
  void receive(FakeWorker& worker, const protocol::Abort& message);
  void begin(FakeWorker& worker);
  void try_swap(Generation generation);
  bool may_swap(const protocol::GenerationPlan& plan);
  void swap(const protocol::GenerationPlan& plan);
  void take_seat(FakeWorker& worker, const protocol::GenerationPlan& plan, std::size_t rank, Step first_step);
  void take_recovery_seat(WorkerId id, Generation generation);
  void check_recovery(const protocol::GenerationPlan& plan);
  bool all_train();
  void advance();
  void try_finish();
  void connect(AgentId id);
  void from_agent(AgentId id, std::function<void()> news);
  void reports();
  void notice(FakeWorker& worker);
  FakeAgent* some_agent();
  FakeWorker* find(WorkerId id);

  std::mt19937_64 random_;
  WorldFaults faults_;
  Membership machine_;
  Instant now_;
  std::multimap<Instant, std::function<void()>> queue_;
  std::set<std::uint64_t> timers_;
  std::map<WorkerId, FakeWorker> workers_;
  std::map<AgentId, FakeAgent> agents_;
  Generation training_generation_ = 0;
  Step step_ = 0;                                       // the last that all members committed
  bool ahead_ = false;                                  // ... and some may have committed the next one
  std::map<WorkerId, protocol::WorkerHalted> answers_;  // of workers that the state machine considers alive
  std::vector<WorkerId> training_;
  std::map<Generation, protocol::GenerationPlan> plans_;
  bool finishing_ = false;
  std::uint64_t last_request_ = 0;
  std::set<std::uint64_t> open_requests_;
  std::optional<int> exit_status_;
  std::vector<std::string> violations_;
  std::vector<std::string> story_;
};

}  // namespace elastictrain::core
