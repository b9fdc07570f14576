// Purpose: the hosts of a simulated cluster: which job has slots on which, which hosts are down or slow, and what that
// does to the speed of a job.
//
// A host that fails takes its slots out of the cluster for a fixed time; jobs lose the slots that they had there, and
// no progress (a run goes on with its other workers, or from a checkpoint). A job is as slow as the slowest of its
// hosts. Pure; random numbers come from the seed. Errors: none; what finds no place is said by place().
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "heuristics/placement/placement.h"
#include "heuristics/sharing/view.h"

namespace elastictrain::heuristics::cluster {

inline constexpr double kRepair_s = 600;
inline constexpr double kSpeedOfSlowHost = 0.5;

struct HostOptions {
  std::uint32_t hosts = 0;     // 0: one pool of slots
  std::uint32_t slots = 0;     // of each host
  double interference = 0;     // the part of its speed that a job loses while another one has slots on one of its hosts
  double failure_every_s = 0;  // mean time until a host fails; 0: none does
  double stragglers = 0;       // the part of the hosts that are slow
  bool migration = false;      // workers move to other hosts where that pays
  double spread = 1;           // the part of its speed that a job keeps on twice the fewest hosts, if no curve says it
};

class Hosts {
 public:
  struct Wanted {
    std::uint64_t job = 0;
    std::uint32_t slots = 0;
  };

  Hosts(const HostOptions& options, std::uint64_t seed);

  std::uint32_t slots() const;  // of the hosts that are up
  std::vector<sharing::Host> up() const;
  double next_event_s() const;
  // Hosts that fail or are back by then. Returns the slots that jobs lose.
  std::vector<Wanted> pass(double now_s);
  // Places all jobs that want slots; the others have none from now on. Returns what each gets, at most what it wants.
  std::vector<std::uint32_t> place(const std::vector<Wanted>& wanted);
  // Slots that no job has, by host.
  std::vector<std::uint32_t> free() const;
  bool is_up(std::uint32_t host) const { return hosts_[host].is_up; }
  // Nobody is placed there from now on; and again as before.
  void reserve(const std::vector<placement::Piece>& pieces);
  void release(const std::vector<placement::Piece>& pieces);
  // A job that keeps its size.
  void move(std::uint64_t job, std::vector<placement::Piece> to);
  double speed(std::uint64_t job) const;
  // Of a job with this curve, in the slots of that one: the part that it keeps on their number of hosts.
  double spread(const sharing::Curve& curve, std::uint64_t job) const;
  double spread(const sharing::Curve& curve, std::uint32_t slots, std::uint32_t hosts) const;
  const std::vector<placement::Piece>& pieces(std::uint64_t job) const;

 private:
  struct Host {
    bool is_up = true;
    bool is_slow = false;
    double next_s = 0;  // when that changes
    std::uint32_t jobs = 0;
    std::uint32_t reserved = 0;
  };

  void lose(std::uint32_t host, std::vector<Wanted>& lost);

  HostOptions options_;
  std::mt19937_64 rng_;
  std::vector<Host> hosts_;
  std::map<std::uint64_t, std::vector<placement::Piece>> pieces_;  // by job
};

}  // namespace elastictrain::heuristics::cluster
