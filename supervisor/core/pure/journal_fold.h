// Purpose: reconstructs a run from the records of its journal, for a supervisor that takes the run over: which agents
// and workers should exist, which generation trains with which members, which numbers are used, and whether the journal
// ends in the middle of a change. A "run_opened" begins anew: records before it belong to an older run of the same
// name.
//
// Thread: any one. Pure. Cost: one pass, memory for the run's lineage and for the plans since the last complete
// generation. Records come from a file: what contradicts the records before it is damage, and changes as little as
// possible.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "supervisor/core/pure/event.h"
#include "supervisor/core/pure/records.h"

namespace elastictrain::core {

// More than a supervisor writes within the time for which the kernel keeps unsynced pages.
inline constexpr std::uint64_t kMaxUnsyncedRecords = 10'000;

class JournalFold {
 public:
  void take(const Record& record);
  // A supervisor in this boot of the machine continues the run. The one before may have lost its machine's power, and
  // with it records that were not synced: numbers that they issued are not issued again. "": cannot be told.
  void continue_in(const std::string& boot);
  // Everything but the audits, which are not in the journal.
  Resumed result() const;

  // The record that the run's last supervisor wrote at the end of the run.
  bool ended() const { return state_.ended; }
  // The newest version in which a supervisor of this run wrote.
  std::uint32_t schema() const { return state_.schema; }

 private:
  struct KnownAgent {
    std::string host;
    std::uint32_t slots = 0;
    bool drain = false;
    bool connected = false;
    std::vector<std::uint32_t> only = {};
    bool noticed = false;
    bool offered = true;  // since the last takeover: it has not left the list of hosts
    bool ended = false;   // no agent is there; remembered because the host may be drained, now or later
  };
  struct Plan {
    std::vector<WorkerId> members;
    std::vector<std::uint32_t> shares;
    double learning_rate_factor = 1.0;
    protocol::Synchronization synchronization = protocol::Synchronization::kGradients;
    Step first_step = 0;     // 0: not known yet
    bool inherited = false;  // from a supervisor that was lost: its successor knows no first step
  };
  struct Request {
    std::uint32_t target = 0;
    std::string reason;
    std::string host;  // to drain, or to undrain
    bool undrain = false;
  };
  struct State {
    std::uint32_t schema = 1;
    std::string boot;  // of the machine of the run's last supervisor
    std::map<AgentId, KnownAgent> agents;
    std::map<WorkerId, Resumed::WorkerPlace> workers;
    std::map<Generation, Plan> plans;
    std::map<std::uint64_t, Request> requests;
    Generation generation = 0;
    Generation issued = 0;
    Plan now;
    std::optional<Generation> committed;  // and not complete
    bool open_plan = false;               // prepared, neither committed nor cancelled
    bool open_fence = false;
    bool gap = false;              // records are missing since the last complete generation
    std::vector<WorkerId> halted;  // workers that answered the last fence
    std::set<WorkerId> finished;   // their program reached its end
    std::vector<protocol::Fence> lineage;
    std::uint32_t target = 0;
    std::string target_reason = "the size to start with";
    UpdatePlan plan_update;
    std::optional<SizeHold> hold;
    std::optional<GrowRefusal> refused;
    std::optional<WorkerId> first;  // the newest worker whose environment says rank 0
    bool restarting = false;        // all state was lost, and nothing has trained since
    bool leased = false;
    LeaseState lease;
    std::uint32_t plain_restarts = 0;
    std::uint32_t last_agent = 0;
    std::uint64_t last_worker = 0;
    bool ending = false;
    bool ended = false;
  };

  template <class R>
  void on(const R&) {}  // tells a later supervisor nothing
  void on(const record::RunOpened& about);
  void on(const record::RunResumed& about);
  void on(const record::HostOffered& about);
  void on(const record::HostAgain& about);
  void on(const record::HostSlotsChanged& about);
  void on(const record::HostVanished& about);
  void on(const record::HostBack& about);
  void on(const record::HostNotice& about);
  void on(const record::HostReleased& about) { end_agent(about.agent); }
  void on(const record::HostUnneeded& about) { end_agent(about.agent); }
  void on(const record::AgentConnected& about);
  void on(const record::AgentLost& about) { end_agent(about.agent); }
  void on(const record::AgentEnded& about) { end_agent(about.agent); }
  void on(const record::NewcomerSentAway& about);
  void on(const record::Spawn& about);
  void on(const record::FirstSuccessor& about) { state_.first = about.worker; }
  void on(const record::Exited& about) { state_.workers.erase(about.worker); }
  void on(const record::SpawnFailed& about) { state_.workers.erase(about.worker); }
  void on(const record::SpawnLost& about) { state_.workers.erase(about.worker); }
  void on(const record::Vanished& about) { state_.workers.erase(about.worker); }
  void on(const record::Left& about);
  void on(const record::Finished& about);
  void on(const record::PlainRestart& about) { state_.plain_restarts = about.count; }
  void on(const record::ResizeRequested& about);
  void on(const record::SizeHeld& about) { state_.hold = SizeHold{Millis(about.for_ms.value_or(0))}; }
  void on(const record::GrowRefused& about) { state_.refused = GrowRefusal{about.size, about.reason}; }
  void on(const record::SizeReleased&) { state_.hold.reset(); }
  void on(const record::LeaseTaken& about) {
    state_.lease = {about.version, about.slots, about.reason, about.hold.value_or(false), about.moves.value_or(false)};
  }
  void on(const record::DrainRequested& about);
  void on(const record::UndrainRequested& about);
  void on(const record::Accepted& about);
  void on(const record::Refused& about) { state_.requests.erase(about.request); }
  void on(const record::Target& about);
  void on(const record::PlanUpdated& about);
  void on(const record::Prepare& about);
  void on(const record::Cancel& about);
  void on(const record::Commit& about);
  void on(const record::Active& about);
  void on(const record::GenerationComplete& about);
  void on(const record::GivenUp& about);
  void on(const record::Abort& about);
  void on(const record::HaltSettled& about);
  void on(const record::StateLost& about);
  void on(const record::JournalGap& about);
  void on(const record::RunState& about);
  void on(const record::Ending& about);
  void on(const record::End&) { state_.ended = true; }
  void on(const record::RunClosed&) { state_.ended = true; }

  static void restore_agents(const record::RunState& about, State& state);
  static void restore_lease(const record::RunState& about, State& state);
  static void restore_workers(const record::RunState& about, State& state);
  static void restore_plan(const record::RunState& about, State& state);
  bool ends_before_the_boundary() const;
  template <class R>
  void add_agent(const R& about);
  void end_agent(AgentId id);
  void drain(const std::string& host);
  void undrain(const std::string& host);
  KnownAgent* agent_on(const std::string& host, AgentId* id = nullptr);
  void remember(Generation generation, Step first_step);
  void add_unsettled(Resumed& resumed) const;
  void raise_highest(Resumed& resumed) const;
  void miss_records(std::uint64_t count);

  State state_;
};

}  // namespace elastictrain::core
