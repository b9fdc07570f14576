// Purpose: one simulated cluster: the real state machine, stand-ins of runs, messages that take time, a journal that
// outlives the cluster process, and seeded faults until a time from which on all is well. Checked after every event:
// the rules of the state machine, that no slot has processes of two runs that the journal does not say are packed
// there, and never of three, that versions only rise, that a lease is in the journal before it is sent, that a
// shortened journal says the same, that speeds beside another job are not taken for those alone. Checked at the end:
// every job has ended.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "helper_jobs.h"
#include "own_policy.h"
#include "stand_in.h"
#include "supervisor/cluster/core/cluster.h"

namespace elastictrain::cluster_core::test {

inline constexpr double kGrace_s = 15;  // of workers whose supervisor is lost

inline std::uint32_t slots_of(const std::vector<HostLine>& hosts) {
  std::uint32_t slots = 0;
  for (const HostLine& host : hosts) slots += host.slots;
  return slots;
}

class World {
 public:
  explicit World(std::uint64_t seed);
  // Empty: nothing was wrong.
  std::string run();
  std::uint64_t events() const { return happened_; }
  // Of pairs, as the journal says.
  std::uint64_t kept() const { return kept_; }
  std::uint64_t undone() const { return undone_; }
  // Of workers between hosts, as the journal says.
  const std::map<record::MoveOutcome, std::uint64_t>& moves() const { return moves_; }
  std::uint64_t answers() const { return own_policy_.answers; }
  const HelperJobs& helpers() const { return helpers_; }

 private:
  using Do = std::function<void()>;
  struct Entry {
    double at_s;
    std::uint64_t number;
    Do what;
    bool operator<(const Entry& other) const { return at_s != other.at_s ? at_s > other.at_s : number > other.number; }
  };

  double uniform(double low, double high) { return std::uniform_real_distribution<>(low, high)(rng_); }
  std::uint32_t whole(std::uint32_t low, std::uint32_t high) {
    return std::uniform_int_distribution<std::uint32_t>(low, high)(rng_);
  }
  bool chance(double p) { return uniform(0, 1) < p; }
  void later(double delay_s, Do what) { queue_.push({now_s_ + delay_s, ++number_, std::move(what)}); }
  void fail(const std::string& text) {
    if (problem_.empty()) problem_ = "at " + std::to_string(now_s_) + " s: " + text;
  }

  // The cluster process.
  void start_cluster();
  std::unique_ptr<Cluster> recalled() const;
  void shorten_journal();
  void kill_cluster();
  void give(const Event& event);
  void carry_out(const Actions& actions);
  void carry_out(const Action& action);
  void wake();
  void write(const Record& record);
  void learn_pairs(const Record& record);
  void count_moves(const Record& record);
  void part(JobId job, const Slots* slots);

  // Runs.
  void submit();
  void start_foreign();
  void begin_supervisor(StandIn& run, double delay_s);
  void connect(std::size_t place);
  void to_run(std::size_t place, std::function<void(StandIn&)> what);
  void to_cluster(std::size_t place, Event event);
  void tick(std::size_t place);
  void end_run(StandIn& run, int status);
  void kill_supervisor(StandIn& run);
  Probed::State state_of(const StandIn& run) const;
  std::size_t run_of(Connection connection) const;
  std::size_t run_of_job(JobId job);

  void fault();
  void disturb_move(std::size_t place);
  void forbid_starts(std::size_t place, double for_s);
  void lose_hosts();
  // Helper jobs.
  HelperJobs::Surroundings surroundings();
  void look_at_hosts();
  std::vector<HostLine> with_helpers() const;
  std::uint32_t place_of(const std::string& host) const;
  void lose_host(std::uint32_t place);
  void switch_off_host();
  std::string user_of(const std::string& host) const;
  void check();
  std::string left_over() const;

  std::mt19937_64 rng_;
  Settings settings_;
  std::unique_ptr<Cluster> cluster_;
  std::vector<Record> journal_;
  std::vector<HostLine> hosts_;   // without helpers'
  std::vector<HostLine> listed_;  // of them, as whoever lists them says now
  HelperJobs helpers_;
  OwnPolicy own_policy_;       // decides if the settings say so
  std::uint64_t process_ = 0;  // of the cluster: answers to an earlier one come to nothing
  bool has_helpers_ = false;
  std::vector<HostLine> journal_hosts_;  // in the order of their numbers
  std::set<std::uint32_t> absent_;
  std::vector<StandIn> runs_;
  std::map<JobId, std::size_t> run_of_job_;
  std::map<JobId, std::uint64_t> versions_;
  std::map<Slot, std::set<std::pair<JobId, JobId>>> pairs_;  // that may both be there, as the journal says
  std::uint64_t kept_ = 0, undone_ = 0;
  std::map<record::MoveOutcome, std::uint64_t> moves_;
  std::map<JobId, std::string> moving_;  // when the cluster process was killed
  std::priority_queue<Entry> queue_;
  std::uint64_t number_ = 0;
  std::uint64_t timer_ = 0;  // the one that is set
  std::uint64_t happened_ = 0;
  Connection last_connection_ = 0;
  double now_s_ = 0;
  double well_from_s_ = 0;
  std::uint32_t to_submit_ = 0;
  bool scatters_ = false;  // small jobs, some long, on several hosts: those that end leave holes
  std::uint32_t submitted_ = 0;
  std::string problem_;
};

}  // namespace elastictrain::cluster_core::test
