// Purpose: one run of a replay, as its cluster sees it: it joins, follows its leases and reports, and takes as long for
// everything as the past says. It tells what it does next by next_s(), and act() does it. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "supervisor/cluster/core/cluster.h"
#include "supervisor/cluster/replay/past.h"

namespace elastictrain::cluster::replay {

class RunModel {
 public:
  RunModel(const PastJob& past, const Delays& delays, cluster_core::JobId id);

  cluster_core::JobId id() const { return id_; }
  const PastJob& past() const { return *past_; }
  // Its process was started.
  void start(std::uint32_t attempt, double now_s);
  void take_lease(const cluster_core::SendLease& lease, double now_s);
  // It is told to end.
  void end(double now_s);

  double next_s() const;
  // What it says then, in this order. Call it when next_s() has come.
  std::vector<cluster_core::Event> act(double now_s);

  bool is_over() const { return over_; }
  // Slots x time in which workers trained.
  double trained_slot_s() const { return trained_slot_s_; }

 private:
  using Slot = heuristics::leases::Slot;
  using Places = std::set<Slot>;
  struct Leaving {
    double at_s;
    Places slots;
  };

  void train(double now_s);
  void set_members(Places members, double now_s);
  void leave(const Places& slots, double after_s, double now_s);
  void report_soon(double now_s);
  double start_s(bool grows) const;
  double done_s() const;
  cluster_core::Slots holds() const;
  cluster_core::Join join() const;
  cluster_core::Report report() const;
  std::vector<cluster_core::RateSeen> rates() const;
  std::vector<cluster_core::Event> ending(int status);

  const PastJob* past_;
  const Delays* delays_;
  cluster_core::JobId id_;
  std::uint32_t attempt_ = 0;
  cluster_core::Connection connection_ = 0;
  double join_s_ = cluster_core::kNever, report_s_ = cluster_core::kNever, ready_s_ = cluster_core::kNever,
         end_s_ = cluster_core::kNever;
  double stand_s_ = cluster_core::kNever;
  int end_status_ = 0;
  std::uint64_t seen_ = 0;  // version of its newest lease
  Places allowed_, members_, starting_;
  std::vector<Leaving> leaving_;
  bool moves_ = false, hold_ = false, stands_ = false, suspends_ = false;
  bool over_ = false;
  std::size_t first_starts_ = 0, growths_ = 0;  // so far
  double samples_ = 0;
  double finished_s_ = cluster_core::kNever;  // it has no samples left since then
  double trained_until_s_ = 0;
  double trained_slot_s_ = 0;
  std::map<std::uint32_t, double> at_size_s_;  // time that it has trained there
};

}  // namespace elastictrain::cluster::replay
