// Purpose: reconstructs a run from its journal, for a supervisor that takes the run over: which agents and workers
// should exist, which generation trains with which members, which numbers are used, and whether the journal ends in the
// middle of a change. Lines that are not records (a torn last one, malformed data) and unknown events are skipped;
// records before the last "run_opened" belong to an older run of the same name.
//
// Thread: any one. JournalReplay is pure. Cost: one pass, memory for the run's lineage and for the plans since the last
// complete generation.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "supervisor/core/event.h"
#include "supervisor/protocol/result.h"

namespace elastictrain {

class JournalReplay {
 public:
  void take(std::string_view line);
  // Everything but the audits, which are not in the journal.
  core::Resumed result() const;

  // The record that the run's last supervisor wrote at the end of the run.
  bool ended() const { return state_.ended; }
  std::uint64_t records() const { return records_; }
  std::uint64_t unreadable() const { return unreadable_; }

 private:
  struct Agent {
    std::string host;
    std::uint32_t slots = 0;
    bool drain = false;
    bool connected = false;
  };
  struct Plan {
    std::vector<WorkerId> members;
    std::vector<std::uint32_t> shares;
    double learning_rate_factor = 1.0;
    protocol::Synchronization synchronization = protocol::Synchronization::kGradients;
    Step first_step = 0;  // 0: not known yet
  };
  struct Request {
    std::uint32_t target = 0;
    std::string reason;
    std::string host;  // to drain
  };
  struct State {
    std::map<AgentId, Agent> agents;
    std::map<WorkerId, core::Resumed::WorkerPlace> workers;
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
    core::Reshare reshared;
    std::uint32_t last_agent = 0;
    std::uint64_t last_worker = 0;
    bool ended = false;
  };
  class Record;
  using Handler = void (JournalReplay::*)(const Record&);
  static const std::map<std::string_view, Handler>& handlers();

  void opened(const Record& record);
  void resumed(const Record& record);
  void host_offered(const Record& record);
  void host_slots(const Record& record);
  void host_vanished(const Record& record);
  void host_back(const Record& record);
  void host_noticed(const Record& record);
  void agent_connected(const Record& record);
  void agent_gone(const Record& record);
  void spawned(const Record& record);
  void worker_gone(const Record& record);
  void finished(const Record& record);
  void requested(const Record& record);
  void accepted(const Record& record);
  void refused(const Record& record);
  void retargeted(const Record& record);
  void reshared(const Record& record);
  void prepared(const Record& record);
  void cancelled(const Record& record);
  void committed(const Record& record);
  void active(const Record& record);
  void completed(const Record& record);
  void given_up(const Record& record);
  void fenced(const Record& record);
  void halt_settled(const Record& record);
  void state_lost(const Record& record);
  void gap(const Record& record);
  void whole_state(const Record& record);
  void end(const Record& record);

  static void take_roster(const Record& record, State& state);
  Agent* agent_on(const std::string& host, AgentId* id = nullptr);
  void remember(Generation generation, Step first_step);
  void raise_highest(core::Resumed& resumed) const;

  State state_;
  std::uint64_t records_ = 0;
  std::uint64_t unreadable_ = 0;
};

// The whole file, and the audits next to it (audit_file.h).
Result<core::Resumed> replay_journal(const std::string& path);

}  // namespace elastictrain
