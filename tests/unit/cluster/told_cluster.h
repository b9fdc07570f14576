// Purpose: a cluster to which a story happens, one event after the other; each is followed by a tick, and breaks no
// rule.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "supervisor/cluster/core/cluster.h"

namespace elastictrain::cluster_core::test {

class ToldCluster {
 public:
  explicit ToldCluster(Settings settings) : cluster_(std::move(settings)) { cluster_.begin(now_s_); }
  virtual ~ToldCluster() = default;

  const Job& job(JobId id) const { return cluster_.jobs().at(id); }
  const heuristics::leases::Lease& lease(JobId id) const { return cluster_.book().lease(id); }

 protected:
  void give(const Event& event) {
    take(cluster_.step(event, now_s_));
    take(cluster_.step(Tick{}, now_s_ + 0.1));
    CHECK(cluster_.broken_rules() == std::vector<std::string>{});
  }

  // It stands in the journal.
  virtual void on_record(const Record& record) = 0;

  Cluster cluster_;
  double now_s_ = 1;

 private:
  void take(const Actions& actions) {
    for (const Action& action : actions) {
      if (const auto* written = std::get_if<Write>(&action)) on_record(written->record);
    }
  }
};

}  // namespace elastictrain::cluster_core::test
