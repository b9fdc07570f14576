// Purpose: workers that move between simulated hosts although the size of their job stays, where the rule that decides
// live (placement/repair.h) says that it pays.
//
// One repair is under way at a time. With swaps the new workers start beside training, on slots that are reserved
// meanwhile, and the job has its new speed when they have started; with restarts it stands still for a start; a move
// costs nothing where changes cost nothing. A job whose size changes, or that loses a host, does not move any more.
// What a move gains is known here, where a live cluster hopes and measures; so none is undone. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "heuristics/placement/repair.h"
#include "heuristics/sharing/view.h"
#include "heuristics/simulate/cluster/hosts.h"
#include "heuristics/simulate/cluster/progress.h"

namespace elastictrain::heuristics::cluster {

class Migration {
 public:
  // A job that has slots.
  struct Subject {
    std::uint64_t job = 0;
    const sharing::Curve* curve = nullptr;
    bool may_move = false;
    double changed_s = 0;  // its size, last
    double left_s = 0;     // that it still trains
  };

  explicit Migration(const Cost& cost);

  double next_event_s() const;
  // Jobs whose workers have got to their new hosts by now.
  std::vector<std::uint64_t> pass(Hosts& hosts, double now_s);
  // A job is about to be placed with another size, or ends.
  void overtake(Hosts& hosts, std::uint64_t job);
  // After all jobs are placed.
  void look(Hosts& hosts, const std::vector<Subject>& subjects, const std::vector<placement::Seeker>& seekers,
            double now_s);
  std::uint64_t moves() const { return moves_; }

 private:
  struct Move {
    std::uint64_t job = 0;
    std::vector<placement::Piece> from, to, reserved;
  };
  double rests_until_s(const Subject& subject) const;
  placement::Resident resident_of(const Hosts& hosts, const Subject& subject, double now_s) const;
  void begin(Hosts& hosts, const placement::Repair& repair, const std::vector<Subject>& subjects, double now_s);
  void end(Hosts& hosts);

  double start_s_ = 0;  // beside training
  double stop_s_ = 0;   // of the whole job
  std::vector<Move> under_way_;
  std::vector<placement::Piece> kept_;  // for the job for which room is made
  double ready_s_ = sharing::kNever;
  double look_s_ = sharing::kNever;                      // when one more may move
  std::vector<std::pair<std::uint64_t, double>> moved_;  // jobs, and when they have moved last
  std::uint64_t moves_ = 0;
};

}  // namespace elastictrain::heuristics::cluster
