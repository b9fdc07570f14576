// Purpose: figures that a run reports to its cluster: the slots on which its processes may exist, and its throughput
// at each size. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heuristics/policy/view.h"
#include "supervisor/cluster/lease_protocol.h"
#include "supervisor/protocol/ids.h"

// The slots on which a process of a run exists or may exist. A slot is held from the order to start a worker
// there until its process has ended, or can exist no more: an agent that lost its supervisor ends its workers after the
// run's orphan grace. Pure: the time is an argument.
//
// Ownership: by the process of a run; it outlives the supervisor of a run that is suspended. Thread: any, one at a
// time.

namespace elastictrain::cluster {

class Holds {
 public:
  void started(WorkerId worker, AgentId agent, const std::string& host, std::uint32_t slot);
  void ended(WorkerId worker, AgentId agent);  // as this agent says
  // No supervisor can reach the agent: its workers may live until `when` at most.
  void out_of_reach(AgentId agent, Instant when);
  // It is back, and only these live.
  void back(AgentId agent, const std::vector<WorkerId>& living);
  // Forgets what cannot exist any more.
  void pass(Instant now);

  bool empty() const { return held_.empty(); }
  bool has(WorkerId worker) const { return held_.contains(worker); }
  // When the next one is given up.
  std::optional<Instant> next() const;
  std::vector<HostSlots> slots() const;

 private:
  struct Held {
    AgentId agent;
    std::string host;
    std::uint32_t slot = 0;
    std::optional<Instant> until;  // nothing: as long as its process has not ended
  };
  std::map<WorkerId, Held> held_;
};

// Throughput of a run at each size, from the intervals of the views that policies get. Its cluster shares
// slots by it. Pure.
//
// The newest views count most: a book of more than kRememberedViews at a size forgets half of them. What was measured
// while another job shared the slots is kept apart, and forgotten sooner, so that it is about that job.
// Ownership and thread: those of the run's reporter.

inline constexpr std::uint32_t kRememberedViews = 32;
inline constexpr std::uint32_t kRememberedPackedViews = 4;

class RateBook {
 public:
  // `hosts`: on which the members were.
  void add(const std::vector<heuristics::Interval>& intervals, std::uint32_t hosts);
  std::vector<Rate> rates() const { return rates_of(sums_, &Sum::views); }
  // Beside whom all that follows is measured; empty: nobody. What was measured beside another one is forgotten.
  void set_beside(const std::string& job);
  // `views` counts those that are forgotten, too.
  std::vector<Rate> packed_rates() const { return rates_of(packed_, &Sum::seen); }

 private:
  struct Sum {
    double samples = 0;
    double seconds = 0;
    std::uint32_t views = 0;  // that count
    std::uint32_t seen = 0;   // that it tells of
  };
  using Sums = std::map<std::pair<std::uint32_t, std::uint32_t>, Sum>;  // by workers and hosts

  static void add(Sum& sum, const heuristics::Interval& interval, std::uint32_t remembered);
  static std::vector<Rate> rates_of(const Sums& sums, std::uint32_t Sum::*views);

  Sums sums_, packed_;
  std::string beside_;
  bool straddles_ = false;  // the interval that is open began beside somebody else
};

}  // namespace elastictrain::cluster
