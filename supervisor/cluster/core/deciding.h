// Purpose: one decision of a cluster on its way through the steps of decide(), and the reasons for its grants in
// words.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "heuristics/sharing/grants.h"
#include "heuristics/sharing/view.h"
#include "supervisor/cluster/core/state.h"

// Reasons for the slots that a job has, in words, as queue and explain show them. Pure.

namespace elastictrain::cluster_core {

struct Given {
  std::string policy;
  std::string said;         // by a policy from outside
  std::uint32_t slots = 0;  // within the job's sizes, limits and hosts
  double used_slot_s = 0;   // by the job so far
  double now_s = 0;
};

std::string reason_of(const Given& given, const heuristics::sharing::Grant& grant);

// A number in three digits, or without decimals.
std::string number_text(double number);

// One decision of a cluster on its way through the steps of decide(), and those of its steps that have a file
// of their own.

struct SchedulingRound {
  std::vector<std::vector<bool>> usable;  // by host and number
  std::uint32_t slots = 0;                // usable ones
  double guess = 1;                       // samples a second of a worker of a job that was not measured
  bool measured = false;                  // `guess` is what others do
  double start_s = 0;                     // of a job's workers that were not measured; 0: none were
  std::vector<Job*> jobs;                 // that may have slots, by priority and arrival
  std::vector<Job*> idle;                 // that may not, and do not work
  std::vector<heuristics::sharing::Curve> curves;
  std::vector<heuristics::sharing::Curve> goodput;  // in their place, under a policy of goodput
  std::vector<heuristics::sharing::Grant> grants;
  std::vector<std::string> reasons;  // by job: of a policy from outside; may be shorter
  std::vector<bool> by_stand_in;     // by job: that has not decided; may be shorter
  std::vector<std::uint32_t> shares;
  std::vector<std::size_t> host_of;     // by job: the place of the one whose slots it is to share, or kNone
  std::vector<std::size_t> guest_of;    // and the other way round
  std::vector<bool> blocked;            // by job: the slots on which it stands still are in use
  std::vector<Slots> reserved;          // by job: on which it goes on
  std::vector<std::vector<bool>> full;  // one more job would be too many in memory
  std::vector<std::vector<bool>> open;  // `usable` without `reserved` and `full`
  std::vector<Slots> slots_of;

  static constexpr std::size_t kNone = SIZE_MAX;

  bool is_guest(std::size_t place) const { return place < host_of.size() && host_of[place] != kNone; }
  // It is to have slots: its own, or those of its host.
  bool works(std::size_t place) const { return shares[is_guest(place) ? host_of[place] : place] > 0; }

  bool is_usable(heuristics::leases::Slot slot) const {
    return slot.host < usable.size() && slot.number < usable[slot.host].size() && usable[slot.host][slot.number];
  }

  void block(const Slots& gone) {
    for (const auto slot : gone) {
      if (slot.host < usable.size() && slot.number < usable[slot.host].size()) usable[slot.host][slot.number] = false;
    }
  }
  std::uint32_t count_usable() const {
    std::uint32_t count = 0;
    for (const auto& host : usable) count += static_cast<std::uint32_t>(std::count(host.begin(), host.end(), true));
    return count;
  }
};

// By host. In placing.cc.
std::vector<heuristics::placement::Piece> pieces_of(const Slots& slots);

// What two jobs in the same slots do together, for people. In placing.cc.
std::string looks_text(const heuristics::sharing::Grant& grant);

// In policy_answers.cc.
bool ask_outside(ClusterState& state, SchedulingRound& round, std::size_t first, PolicyQuestion& question,
                 heuristics::sharing::Decision& decision);

// In deadlines.cc.
void meet_deadlines(const ClusterState& state, SchedulingRound& round, std::vector<heuristics::sharing::Bounds>& bounds,
                    double now_s);

// In deciding.cc.
void ask_built_in(ClusterState& state, const heuristics::sharing::View& view, heuristics::sharing::Decision& decision);

// In hosts.cc.
void block_lost(const ClusterState& state, SchedulingRound& round);

// In migrating.cc.
void keep_moves(const ClusterState& state, SchedulingRound& round);
void end_moves(ClusterState& state, const SchedulingRound& round, double now_s);
void repair_placement(ClusterState& state, SchedulingRound& round, double now_s);

// In placing.cc.
void tell_of_packing(const ClusterState& state, const SchedulingRound& round, std::size_t place,
                     heuristics::sharing::JobView& view);
void assign_guests(const ClusterState& state, SchedulingRound& round);
std::string packing_text(const SchedulingRound& round, std::size_t place);

// In placing.cc.
void place_jobs(ClusterState& state, SchedulingRound& round);

// In suspending.cc.
Slots own_place(const ClusterState& state, const SchedulingRound& round, const Job& job);
void reserve_slots(const ClusterState& state, SchedulingRound& round);
void exchange_turns(const ClusterState& state, SchedulingRound& round);

}  // namespace elastictrain::cluster_core
