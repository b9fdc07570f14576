// Purpose: the agents and workers of a run and where they are, and the members that are newer than the last
// agreement.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "supervisor/core/pure/swap_plan.h"
#include "supervisor/protocol/agent_messages.h"
#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/worker_messages.h"

// The agents and workers of a run and where they are: plain records with the look-ups that the state machine
// needs. Iteration is in order of ids, so that equal inputs give equal actions.
//
// Ownership and thread: those of the state machine that holds it. Records of workers that have exited are removed.

namespace elastictrain::core {

enum class Link : std::uint8_t { kLaunching, kUp, kDown };

struct Agent {
  AgentId id;
  std::string host;
  std::uint32_t slots = 0;          // of the host
  std::vector<std::uint32_t> only;  // HostSlots::only
  std::uint32_t order = 0;          // place in the last list of hosts
  Link link = Link::kLaunching;
  bool offered = true;    // on the last list of hosts
  bool drain = false;     // requested by a user, or noticed; until it has been off the list of hosts
  bool noticed = false;   // the host itself said that it goes away
  bool stopping = false;  // StopAgent was sent
  bool used = false;      // a worker was started there
  bool suspect = false;
  bool cut_off = false;        // its connection broke; it and its workers may still run and reconnect
  bool again = false;          // launched because an agent of this host was lost
  bool awaited = false;        // no agent of this host has come yet, and a later attempt may succeed
  std::uint32_t attempts = 0;  // before this one, while none has come
  Instant last_seen;
  std::optional<Instant> seen_again;  // the end of its last long silence
  std::uint64_t timer = 0;            // of the failure detector
  std::uint64_t reconnect_timer = 0;  // while cut off, when survivors report that its workers are gone
  std::string lost_reason;
  std::set<WorkerId> workers;
  std::vector<protocol::WarmProcess> warm;  // as it last reported, less those that were taken or told to end

  std::uint32_t usable_slots() const { return only.empty() ? slots : static_cast<std::uint32_t>(only.size()); }
  bool may_use(std::uint32_t slot) const {
    return only.empty() ? slot < slots : std::binary_search(only.begin(), only.end(), slot);
  }
  // What it holds is lost before long.
  bool goes_away() const { return noticed || !offered; }
  // Workers may train here.
  bool usable() const { return link == Link::kUp && offered && !drain && !stopping; }
  // ... and new ones can be started now.
  bool reachable() const { return usable() && !cut_off; }
  // It drains, and nothing of the run is there, or comes back, until the drain is withdrawn.
  bool drained() const { return drain && offered && (link == Link::kDown || stopping); }
};

enum class Noticed : std::uint8_t { kNo, kReceived, kAnswered };

// What a worker has reported to this supervisor.
enum class Contact : std::uint8_t { kNone, kHello, kReady };
// kAssigned: in a generation, or about to be. kFinished: its program reached the end. kLeft: at a boundary.
enum class Assignment : std::uint8_t { kNone, kAssigned, kFinished, kLeft };
// How its process is to end. kExpected: by itself. kDismiss, kStop: it was told to. kKill: without a grace, as soon as
// its stacks are known.
enum class EndOrder : std::uint8_t { kNone, kExpected, kDismiss, kStop, kKill };

struct Worker {
  WorkerId id;
  AgentId agent;
  std::string host;
  std::uint32_t slot = 0;
  Contact contact = Contact::kNone;
  Assignment assignment = Assignment::kNone;
  EndOrder end_order = EndOrder::kNone;
  std::uint32_t share = 0;          // samples per step in the generation it sits in
  Noticed noticed = Noticed::kNo;   // TERM from a process other than its agent
  std::uint32_t expected_rank = 0;  // as given in its environment
  std::uint64_t timer = 0;          // kReady first, kLeave later
  Instant started_at{};             // by this supervisor
  bool is_first = false;            // its environment says rank 0
  bool may_lead = false;            // and it has trained with the others, so that it gets this rank
  bool was_warm = false;            // its process was another worker before
  bool may_be_warm = false;         // a shrink lets it go: its process may be another worker later
  protocol::WorkerReady facts;
  std::optional<protocol::WorkerHalted> halted;  // its answer to the newest Abort
  std::string held;                              // why it cannot give one yet, where it says so
  std::uint64_t quiet_ms = 0;
  protocol::WorkerHeartbeat heartbeat;  // with the timings of the last one that had any

  void take(const protocol::WorkerHeartbeat& newer);
  Place place() const { return {agent, slot}; }
  bool greeted() const { return contact != Contact::kNone; }
  bool ready() const { return contact == Contact::kReady; }
  bool assigned() const { return assignment != Assignment::kNone; }
  bool finished() const { return assignment == Assignment::kFinished; }
  bool left() const { return assignment == Assignment::kLeft; }
  // Never part of a plan again.
  bool dying() const { return end_order != EndOrder::kNone; }
  bool stop_sent() const { return end_order == EndOrder::kStop || end_order == EndOrder::kKill; }
  bool hung() const { return end_order == EndOrder::kKill; }
  // It is in a generation and nothing has ended it.
  bool trains() const { return assignment == Assignment::kAssigned && !dying(); }

  // A Commit was sent to it.
  void take_assignment() {
    if (assignment == Assignment::kNone) assignment = Assignment::kAssigned;
  }
  // A stronger order replaces a weaker one.
  void order_end(EndOrder order) { end_order = std::max(end_order, order); }
};

class Roster {
 public:
  Agent& add_agent(std::string host, std::uint32_t slots);
  Worker& add_worker(Place place);
  // Those of a run that is taken over keep their ids; later ones get higher ids than any in use before.
  Agent& restore_agent(AgentId id, std::string host, std::uint32_t slots);
  Worker& restore_worker(WorkerId id, Place place);
  void ids_used(std::uint32_t last_agent, std::uint32_t last_worker);
  std::uint32_t last_agent() const { return last_agent_; }
  std::uint32_t last_worker() const { return last_worker_; }
  void remove_worker(WorkerId id);
  void remove_agent(AgentId id) { agents_.erase(id); }

  Agent* agent(AgentId id);
  Worker* worker(WorkerId id);
  const Agent* agent(AgentId id) const { return const_cast<Roster*>(this)->agent(id); }
  const Worker* worker(WorkerId id) const { return const_cast<Roster*>(this)->worker(id); }
  // The current agent of a host: not one that was told to stop.
  Agent* agent_on(const std::string& host);
  // The same, or that of a drained host, which has ended or is about to.
  Agent* agent_of_host(const std::string& host);

  std::map<AgentId, Agent>& agents() { return agents_; }
  std::map<WorkerId, Worker>& workers() { return workers_; }
  const std::map<AgentId, Agent>& agents() const { return agents_; }
  const std::map<WorkerId, Worker>& workers() const { return workers_; }
  std::vector<const Agent*> agents_in_order() const;

  // The process that waits in this slot to be another worker; null: none.
  const protocol::WarmProcess* warm_process(Place place) const;
  // Workers of a slot that have not exited, in order of ids.
  std::vector<WorkerId> occupants(Place place) const;
  // Those of `workers` whose program has not reached its end.
  std::vector<WorkerId> unfinished(const std::vector<WorkerId>& workers) const;
  bool all_live(const std::vector<WorkerId>& workers) const;
  bool nobody_trains() const;
  std::uint32_t usable_slots() const;
  bool any_launching() const;
  bool any_awaited() const;

  // A slot in which workers keep failing is not used for a while. Returns the failures so far.
  std::uint32_t blame(Place place, std::uint32_t failures) { return blame_of(place).failures += failures; }
  // Until when, even if too few workers are left to train.
  void rest(Place place, Instant until) { blame_of(place).rests_until = until; }
  void clear_blame() { blame_.clear(); }
  void clear_blame(Place place) { blame_.erase({place.agent, place.slot}); }
  bool is_blamed(Place place) const;
  bool rests(Place place, Instant now) const;
  std::size_t blamed_slots() const;

 private:
  std::map<AgentId, Agent> agents_;
  std::map<WorkerId, Worker> workers_;
  struct Blame {
    std::uint32_t failures = 0;
    Instant rests_until;
  };

  Blame& blame_of(Place place) { return blame_[{place.agent, place.slot}]; }

  std::map<std::pair<AgentId, std::uint32_t>, Blame> blame_;
  std::uint32_t last_agent_ = 0;
  std::uint32_t last_worker_ = 0;
};

// Members that are newer than the last agreement: where ranks disagree, or a program ends early, the newest of
// them are the suspects, and not those who were there before. A worker that joins a run that trains is on probation
// until the end of an epoch and two more steps have passed without a disagreement; a program without epochs has none of
// the former, so the newest members stay suspects.
//
// Ownership and thread: those of the state machine. Plain state; what follows from it is the halt's.

class Probation {
 public:
  // A change is committed in which this worker joins members that train, in `epoch` as far as it is known.
  void begin(WorkerId id, Generation generation, std::uint64_t epoch);
  void active(WorkerId id, Step first_step);
  // Returns true if this worker has passed it.
  bool take(WorkerId id, const protocol::WorkerHeartbeat& heartbeat);
  void forget(WorkerId id) { newcomers_.erase(id); }
  void keep_known(const Roster& roster);  // forgets those whose processes are gone

  bool is_on(WorkerId id) const { return newcomers_.contains(id); }
  // It has not committed a step yet, as far as it is known.
  bool has_no_step(WorkerId id) const { return steps_of(id, 1); }
  bool is_in_first_steps(WorkerId id) const { return steps_of(id, kFirstSteps); }
  std::uint32_t without_a_step(const Roster& roster) const;
  // Those that train of the newest change up to `generation`.
  std::vector<WorkerId> suspects(const Roster& roster, Generation generation) const;

  static constexpr Step kFirstSteps = 2;  // after the end of an epoch

 private:
  struct Newcomer {
    Generation since = 0;
    std::uint64_t epoch = 0;
    Step first_step = 0;  // 0: not known yet
    Step committed = 0;
    Step epoch_began = 0;  // the first step known of a later epoch
  };

  bool steps_of(WorkerId id, Step fewer_than) const;

  std::map<WorkerId, Newcomer> newcomers_;
};

}  // namespace elastictrain::core
