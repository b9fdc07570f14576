// Purpose: a run of a cluster, live: passes on the cluster's leases as events, keeps account of the slots on which
// processes of the run exist, and reports them, the run's progress and its speed at each size, as changes and at least
// every second. For a run without a cluster every call does nothing.
//
// Ownership: by the supervisor; borrows the connection, which lives as long as the run's process.
// Thread: the io_context's. Errors: none; what the cluster does wrong is the connection's to report.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "heuristics/policy/decision.h"
#include "supervisor/cluster/run_link.h"
#include "supervisor/cluster/run_report.h"
#include "supervisor/core/pure/action.h"
#include "supervisor/core/pure/event.h"
#include "supervisor/core/pure/run_view.h"
#include "supervisor/policy/observer.h"

namespace elastictrain {

struct ClusterSideSettings {
  policy::ObserverSettings observer;
  Millis orphan_grace{60'000};  // after it an agent without a supervisor begins to end its workers
  Millis grace{30'000};         // that they are given
};

class ClusterSide {
 public:
  struct Run {
    std::function<void(core::Event)> feed;
    std::function<core::RunView()> view;
    std::function<double()> up_s;
    std::function<void(const std::string& text)> tell;
    std::function<std::optional<heuristics::ExpectedLength>(const core::RunView& run)> expected_length;
    std::function<std::vector<heuristics::GoodputAt>()> goodput;
  };

  // `link` may be null.
  ClusterSide(asio::io_context& io, cluster::RunLink* link, ClusterSideSettings settings, Run run);

  // From here on leases arrive.
  void begin();
  void close();

  // What happens to processes and agents.
  void take_over(const core::Resumed& resumed);
  void spawned(const core::SpawnWorker& spawn);
  void ended(WorkerId worker, AgentId agent);
  void agent_lost(AgentId agent, core::LossEvidence evidence);
  void agent_back(AgentId agent, std::vector<WorkerId> living, const std::vector<protocol::WarmProcess>& warm);
  // A slot is held while the process of a worker that has left waits there.
  void warm(AgentId agent, const std::vector<protocol::WarmProcess>& processes);

  // What a policy's view is made of.
  void planned(const protocol::GenerationPlan& plan);
  void on_heartbeat(WorkerId worker, const protocol::WorkerHeartbeat& heartbeat);

  // Reports soon.
  void changed();
  // Why the run waits, for users; empty: it does not.
  std::string waits() const;

 private:
  void leased(const cluster::Lease& lease);
  void queued(const cluster::QueuePlace& place);
  void schedule(std::chrono::milliseconds delay);
  void report();
  cluster::Report make_report();

  cluster::RunLink* link_;
  const ClusterSideSettings settings_;
  const Run run_;
  policy::Observer observer_;
  cluster::RateBook rates_;
  asio::steady_timer timer_;
  bool soon_ = false;
  bool open_ = false;
  std::string queued_;  // as last reported
  std::map<AgentId, std::string> hosts_;
  std::set<std::string> hosts_before_;          // that had members at the last report
  std::map<AgentId, std::set<WorkerId>> warm_;  // workers that have left, and whose processes wait
  std::shared_ptr<char> life_ = std::make_shared<char>();
};

}  // namespace elastictrain
