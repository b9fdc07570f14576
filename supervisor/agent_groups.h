// Purpose: groups of agents as one: where each worker lies on several hosts, the core knows such hosts as one host with
// one agent. The first host of a group is its lead, with the process that is the worker; the others are its mates, with
// parts of it. Each has an agent of its own, in the table of agents.
//
// Ownership: owns the table. Thread: the io_context's, also for callbacks. Errors: those of the table; a loss names its
// host. Where each worker lies on one host, everything passes through.
#pragma once

#include <asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "supervisor/agent_table.h"

// A group is connected when all of its hosts are, and lost with the first of them. While one is away, so is the group:
// what the others say waits, as it would wait at an agent that is away, and nothing is sent to them.
// A worker has ended when all of its processes have. A part that fails ends its worker, with the part's reason.
// A report is passed on when each host has sent one, so that the core's failure detector sees a silent mate.

namespace elastictrain {

struct GroupTimes {
  std::chrono::milliseconds words{2'000};       // for a worker whose part has failed: it may print what it sees of that
  std::chrono::milliseconds part_grace{2'000};  // between TERM and KILL
  std::chrono::milliseconds parts_end{5'000};   // for the parts of a worker that has ended in order
  std::chrono::milliseconds repeat{2'000};      // for an exit that an agent repeats after a reconnect
};

class AgentGroups {
 public:
  // `hosts` of each worker.
  AgentGroups(asio::io_context& io, std::uint32_t hosts, AgentTableOptions options, launcher::Launcher& launcher,
              AgentHooks hooks, GroupTimes times = {});
  ~AgentGroups();
  AgentGroups(const AgentGroups&) = delete;
  AgentGroups& operator=(const AgentGroups&) = delete;

  // Connections and what concerns all of them.
  AgentTable& table() { return table_; }
  const AgentTable& table() const { return table_; }

  // As those of the table, for a group: `host` is "a+b".
  void adopt(AgentId agent, const std::string& host);
  void launch(AgentId agent, const std::string& host);
  void stop(AgentId agent, std::chrono::milliseconds grace);
  void drop(AgentId agent, const std::string& reason);
  bool is_stopping(AgentId agent) const;
  // To its lead.
  void send(AgentId agent, std::string frame);
  // nullptr while one of its hosts is away.
  const transport::FrameConnection* connection_of(AgentId agent) const;

  void send_to_all_hosts(AgentId agent, const std::string& frame);
  // Starts the worker's process on the lead, then those on the mates.
  void spawn(AgentId agent, protocol::SpawnWorker order);
  // The core has lost it: what is left of it ends. Returns the hosts that were at fault.
  std::vector<std::string> give_up(AgentId agent);
  // No callback after this.
  void close();

 private:
  struct Member;
  struct Replica;
  struct Group;
  struct PartFailure;

  bool grouped() const { return hosts_ > 1; }
  Group* find(AgentId agent);
  const Group* find(AgentId agent) const;
  Group& add(AgentId agent, const std::string& host);

  void connected(AgentId agent, const protocol::AgentHello& hello);
  void become_whole(Group& group);
  void compare(Group& group);
  void compare_lead(Group& group);
  void compare_mate(Group& group, std::uint32_t place);
  protocol::AgentHello hello_of(const Group& group) const;
  void lost(AgentId agent, const std::string& reason, core::LossEvidence evidence);

  void received(AgentId agent, protocol::AgentUp message);
  void take(Group& group, std::uint32_t place, protocol::AgentUp message);
  void take_from_lead(Group& group, protocol::AgentUp message);
  void take_from_mate(Group& group, std::uint32_t place, protocol::AgentUp message);
  void take_report(Group& group, std::uint32_t place, const protocol::AgentReport& report);
  void start_parts(Group& group, const protocol::ReplicaListens& listens);
  void lead_ended(Group& group, WorkerId worker, protocol::AgentUp ended, bool is_good);
  void part_ended(Group& group, WorkerId worker, std::uint32_t place, const PartFailure* failure);
  void end_replica(Group& group, WorkerId worker);
  void stop_parts(const Group& group, WorkerId worker);
  protocol::StopWorker end_order(WorkerId worker) const;
  void settle(Group& group, WorkerId worker);
  void pass_on(const Group& group, protocol::AgentUp message);

  void after(std::chrono::milliseconds time, std::function<void()> act);
  // For each worker that still runs then.
  void after(std::chrono::milliseconds time, const Group& group, WorkerId worker,
             std::function<void(Group&, Replica&)> act);

  asio::io_context& io_;
  std::uint32_t hosts_;
  GroupTimes times_;
  AgentHooks hooks_;
  AgentTable table_;
  std::map<AgentId, Group> groups_;  // by the lead's agent
  std::shared_ptr<char> life_ = std::make_shared<char>();
};

}  // namespace elastictrain
