// Purpose: a simulated supervisor: the real state machine, with its timers, connections and journal simulated. It
// performs the actions of a step in order and may be killed between any two of them.
//
// Ownership: the world. Thread: one. It mirrors supervisor/*.cc and agent_table.cc without sockets.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "supervisor/core/membership.h"
#include "tests/simulation/network.h"
#include "tests/support/journal_check.h"

namespace elastictrain::simulation {

class World;

class SupervisorProcess {
 public:
  explicit SupervisorProcess(World& world);
  ~SupervisorProcess();

  void begin();
  void take_over(const core::Resumed& resumed);
  void crash();
  void crash_amid_actions(std::optional<std::uint32_t> after);  // after that many actions, or not at all

  bool listens() const { return !crashed_; }
  bool crashed() const { return crashed_; }
  bool receives(AgentId agent, const Connection* connection) const;
  const core::Membership& machine() const { return membership_; }

  void accept(AgentId agent, Connection& connection);
  void launch_ended(AgentId agent, bool came, bool agent_ended, const std::string& reason);
  void offer_hosts();
  void offer_lease();
  // Returns whether the run still accepted it.
  void ask(core::Event event);
  std::uint64_t next_request() { return ++last_request_; }

  void feed(core::Event event);

 private:
  struct Entry {
    Connection* connection = nullptr;
    bool came = false;
    bool ended = false;     // the launcher saw its process end
    bool stopping = false;  // StopAgent was sent
    bool launched_here = false;
    std::uint64_t acknowledged_report = 0;
  };

  void perform(const core::LaunchAgent& action);
  void perform(const core::StopAgent& action);
  void perform(const core::SpawnWorker& action);
  void perform(const core::StopWorker& action);
  void perform(const core::AskAgent& action);
  void perform(const core::KeepWarm& action);
  void perform(const core::EndWarm& action);
  void perform(const core::SendToWorkers& action);
  void perform(const core::ArmTimer& action);
  void perform(const core::CancelTimer& action);
  void perform(const core::Journal& action);
  void perform(const core::Reply& action);
  void perform(const core::Tell&) {}
  void perform(const core::EndRun& action);
  void perform(const core::EndProcess&) { crash(); }
  void perform_all(const core::Actions& actions);
  void check_journal();
  void check_warm();
  void note_drain(const core::Reply& reply);

  void received(AgentId agent, const protocol::AgentUp& message);
  void closed(AgentId agent);
  void lost(AgentId agent, const std::string& reason, core::LossEvidence evidence);
  void send(AgentId agent, protocol::AgentDown message);
  void send_to_worker(WorkerId worker, protocol::AgentDown message);
  void heartbeats();
  bool owns(AgentId agent, WorkerId worker) const;
  void check_spawn(const core::SpawnWorker& action) const;
  void check_stop(WorkerId worker) const;
  void check_kill(WorkerId worker);
  std::set<WorkerId> known_workers() const;

  World& world_;
  core::Membership membership_;
  std::optional<testing::JournalCheck> journal_check_;
  std::map<AgentId, Entry> entries_;
  std::map<WorkerId, AgentId> homes_;
  std::set<std::string> listed_;  // hosts of the newest list
  std::map<std::uint64_t, std::string> drains_;
  std::map<std::uint64_t, std::string> undrains_;
  std::set<std::uint64_t> timers_;
  std::deque<core::Event> events_;
  bool stepping_ = false;
  bool crashed_ = false;
  bool closing_ = false;
  std::optional<std::uint32_t> crash_after_;
  std::uint64_t last_request_ = 0;
  std::shared_ptr<char> life_ = std::make_shared<char>();
};

}  // namespace elastictrain::simulation
