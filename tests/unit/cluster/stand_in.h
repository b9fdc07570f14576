// Purpose: a run as a cluster sees it, in simulated time: a supervisor that joins, follows leases, reports and may die,
// and processes on slots, which start and end in their own time and outlive it. Faults make it stall, lie, or keep a
// slot. The truth about its processes is here, whatever it says.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "supervisor/cluster/core/cluster.h"

namespace elastictrain::cluster_core::test {

using heuristics::leases::Slot;

struct Faults {
  bool stalls = false;        // now: says and does nothing
  bool keeps_slot = false;    // never gives back its last slot while it is alive
  bool lies = false;          // now and then says what cannot be
  bool cannot_start = false;  // no new worker
};

// Samples a second of so many workers, alone on their slots.
double rate_of(std::size_t workers);
// What is left of it on so many hosts: some jobs lose, some gain, for some it is the same.
double speed_on(JobId job, std::uint32_t hosts);

struct StandIn {
  std::string name;
  JobId job = 0;  // 0: not known yet
  bool own = true;
  JobSpec spec;
  Faults faults;

  bool alive = false;     // its supervisor
  bool begun = false;     // its directory is there
  bool finished = false;  // with a status, recorded in its directory
  int status = 0;
  std::uint32_t attempt = 0;
  Connection connection = 0;
  bool joined = false;

  std::uint64_t seen = 0;
  JobId beside = 0;  // as the newest lease says
  std::uint32_t packed_views = 0;
  std::set<Slot> allowed;  // of the newest lease that it has seen
  std::set<Slot> processes;
  bool hold = false;     // its lease says that it is to stand still
  bool stands = false;   // it does, with all processes
  std::set<Slot> still;  // processes that stand still until they leave, while the others go on
  bool told_to_end = false;
  double samples = 0;
  double trained_s = 0;                                                    // up to which samples are counted
  double lost_s = 0;                                                       // since when it has no supervisor
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> views;  // that it measured, by workers and hosts
  bool knows_moves = true;
  const std::set<std::uint32_t>* absent = nullptr;  // hosts that are not there, whatever the cluster says
  std::map<std::uint32_t, std::uint32_t> lost;      // of its lease, as it has found: looks until it tries them again
  bool moves = false;                               // its lease exchanges slots
  std::set<Slot> successors;                        // processes that start, and take over later

  void train(double now_s);
  bool wants_to_leave() const;
  void take(std::uint64_t version, const Slots& slots, bool hold_now, JobId beside_now, bool moves_now);
  // Processes begin and end as its lease says.
  void follow();
  void lose_processes();
  void lose_host(std::uint32_t host);
  void look_for_hosts();
  bool too_few_can_start() const;  // of those that must, where none runs yet
  bool can_start(Slot slot) const;
  std::uint32_t hosts() const;
  // It keeps the old workers until the new ones are there.
  bool exchange();
  bool computes_on(Slot slot) const { return !stands && !still.contains(slot); }
  Slots holds() const;  // also those on which a successor starts
  Join join(Connection number, const std::string& id) const;
  // It has measured its present size once more since the last one.
  Report report();
  // Of its speed alone: with some it gains to share slots, with others it loses.
  double packed_speed() const;
};

}  // namespace elastictrain::cluster_core::test
