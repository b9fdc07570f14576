// Purpose: one simulated run: its machines, processes, connections, disk and clock, from one seed. Processes interact
// only through the messages that the world carries.
//
// Ownership: owns everything below it. Thread: one.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "supervisor/core/pure/event.h"
#include "supervisor/core/pure/settings.h"
#include "tests/simulation/data_plane.h"
#include "tests/simulation/disk.h"
#include "tests/simulation/event_queue.h"
#include "tests/simulation/network.h"
#include "tests/simulation/oracle.h"
#include "tests/simulation/rng.h"
#include "tests/simulation/trace.h"

namespace elastictrain::simulation {

class AgentProcess;
class SupervisorProcess;
class WorkerProcess;

// The training program of a simulated run.
struct Program {
  std::uint64_t samples = 100;  // per epoch
  std::uint64_t epochs = 1;
  Step max_steps = 0;  // 0: until the epochs are over
  std::uint32_t buckets = 1;
  Micros start_min{20'000};
  Micros start_max{400'000};
  Micros compute_min{5'000};
  Micros compute_max{20'000};
  Micros update{1'000};
  Micros evaluation{0};  // at the end of every epoch
  std::uint64_t checkpoint_every = 0;
  std::uint64_t audit_every = 0;
};

struct Setup {
  core::RunSettings settings;
  Program program;
  Millis heartbeat{250};
  Millis orphan_grace{60'000};
  Millis connect_timeout{10'000};
  bool kills_for_memory = false;  // KILL of a worker is the kernel's OOM killer's
  bool full_devices = false;      // a slot has no memory for two workers: the second one ends when it starts
};

// How often the machinery itself fails, in addition to the faults that a scenario injects.
struct FaultRates {
  double launch_fails = 0;
  double spawn_fails = 0;
  double build_fails = 0;
  double crashes_at_start = 0;
  double never_ready = 0;  // a worker that starts while others train
  double odd = 0;          // a worker that joins others holds another value: the ranks disagree
  double late_end = 0;     // a collective that has failed holds its worker for a while
};

class World {
 public:
  World(std::uint64_t seed, Setup setup, std::size_t trace_lines);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Setup setup;
  FaultRates fault_rates;
  EventQueue queue;
  Rng rng;
  Rng oddness;   // a source of its own, so that runs without odd workers do not depend on it
  Rng lateness;  // the same for late ends
  Trace trace;
  Oracle oracle;
  Disk disk;
  DataPlane plane;
  std::vector<std::unique_ptr<Host>> hosts;
  std::vector<core::HostSlots> lease;  // in a run of a cluster: the newest
  std::set<std::string> drained;       // hosts that a user drained: the answer said so, and nothing has ended it since
  std::set<std::string> undrained;     // hosts to which that has been done again
  std::uint64_t lease_version = 0;
  bool lease_holds = false;
  bool lease_held = false;   // in the newest version
  bool lease_moves = false;  // the next one exchanges slots
  bool lease_moved = false;  // the newest one does
  std::map<AgentId, std::unique_ptr<AgentProcess>> agents;
  std::map<WorkerId, std::unique_ptr<WorkerProcess>> workers;
  std::map<WorkerId, const Host*> homes;  // including workers that are gone
  std::unique_ptr<SupervisorProcess> supervisor;
  std::map<Generation, Snapshot> broadcasts;  // initial parameters that rank 0 of a first generation sends to all
  std::function<void()> on_supervisor_crash;
  std::function<void(const std::vector<WorkerId>& members)> on_start_from_checkpoint;
  std::function<void()> on_end_near;  // some worker has used up the data
  std::optional<int> exit_status;
  std::string exit_reason;
  bool finished = false;  // some worker reached the end of the data
  // No fault has occurred yet, or the run has reached its size after the last one: nothing justifies that a member
  // ends.
  bool undisturbed = true;
  std::set<WorkerId> odd;               // the workers with another value
  std::map<WorkerId, Generation> came;  // of workers that joined others: the generation in which they did
  bool supervisor_was_lost = false;     // the next one does not know who is new
  // Something has been stopped, slow or caught in a loop: without that no loss is a hang.
  bool stalled = false;
  // Workers that were lost with an account that no surviving holder has reported since.
  std::set<WorkerId> unreported;
  std::set<WorkerId> condemned;  // asked for their stacks, or killed without that
  // An agent that may hold accounts of lost workers has ended, or the supervisor no longer accepts its messages.
  bool audits_lost = false;
  void lose_audits() { audits_lost = audits_lost || !exit_status; }
  void forget_drains();      // what a supervisor has accepted may be lost with it
  void lose_what_is_away();  // the end of a run does not wait for it without a limit

  Host& host(const std::string& name);
  bool leases(const std::string& host, std::uint32_t slot) const;
  std::uint32_t leased_slots() const;
  AgentProcess* agent(AgentId id);
  bool has_agent(const Host& host) const;
  WorkerProcess* worker(WorkerId id);

  // Runs until then, until a check fails, or until the run is over and none of its processes is left.
  void run_until(Instant end);
  bool over() const;

  Connection& new_connection(const Host& host);

  // The launcher.
  void launch(AgentId agent, const std::string& host);
  void forget(AgentId agent);  // the launcher ends its processes there
  void agent_ended(AgentId agent);
  void worker_ended(WorkerId worker);

  // Connections and machines changed: held-back messages may continue.
  void look_again();
  void power_off(Host& host);

  template <class Who, class Text>
  void log(const Who& who, const Text& text) {
    if (trace.on()) trace.add(queue.now(), name_of(who), text);
  }
  void violated(const std::string& check, const std::string& text);

 private:
  static std::string name_of(const std::string& name) { return name; }
  static std::string name_of(const char* name) { return name; }
  static std::string name_of(WorkerId id) { return to_string(id); }
  static std::string name_of(AgentId id) { return to_string(id); }

  Links links();
  void remove_ended();

  std::set<AgentId> launched_;
  std::vector<std::unique_ptr<Connection>> connections_;  // all that ever existed
  std::vector<std::unique_ptr<AgentProcess>> ended_agents_;
  std::vector<std::unique_ptr<WorkerProcess>> ended_workers_;
};

}  // namespace elastictrain::simulation
