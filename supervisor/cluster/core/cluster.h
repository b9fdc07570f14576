// Purpose: a cluster that many runs share, as a state machine: step(event, now) gives the actions to carry out. It
// keeps the jobs' lives, the users' limits, the policy's decisions and the leases; it knows no sockets, files or
// processes.
//
// Rules that hold after every step (broken_rules()): a slot is leased to one run, to two only where a decision packed
// them; it passes on when its holder has given it back or cannot use it any more; versions of a lease only rise; what
// is recorded comes before what is done.
//
// Ownership: owns everything it holds. Thread: one. Deterministic: the same events at the same times from the same seed
// give the same actions. Errors: what a run or a user does wrong is answered; nothing throws.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heuristics/leases/lease_book.h"
#include "heuristics/placement/placement.h"
#include "heuristics/placement/repair.h"
#include "heuristics/sharing/grants.h"
#include "heuristics/sharing/policy.h"
#include "supervisor/cluster/core/action.h"
#include "supervisor/cluster/core/event.h"
#include "supervisor/cluster/core/job.h"

namespace elastictrain::cluster_core {

struct Settings {
  std::string version;
  std::string policy = "afs-p";  // known to sharing_policies(), whole slots only; or the name of one from outside
  bool outside = false;          // it is asked by AskPolicy; kStandIn decides where it does not answer
  double slice_s = 0;            // of policies with time slices; 0: their own
  double decide_after_s = 0.05;  // what happens within it is decided together
  double recall_timeout_s = 60;  // for a run to give back a slot
  double resume_timeout_s = 10;  // for runs to come back after a restart of the cluster process
  double join_timeout_s = 300;   // for a started run to join
  double orphan_grace_s = 120;   // after which a run without a supervisor has no workers left
  double probe_interval_s = 1;   // between two looks at a run whose connection was lost
  std::uint32_t suspended_per_slot = 0;  // jobs that may stand still in memory there; 0: none does
  bool packing = false;                  // two jobs may share slots, under a policy that packs
  bool estimated_lengths = false;        // a job that does not say its length has that which its loss says
  bool migration = true;                 // workers may move between hosts, where that pays
  std::uint32_t most_slots = 0;          // up to which helper jobs bring more; 0: none do
  double least_gain = 0.5;               // see demand()
  std::uint32_t max_failures = 5;        // in a row, without progress
  std::uint32_t max_jobs = 20'000;       // that have not ended
  std::size_t kept_ended = 1000;
  std::uint64_t seed = 1;
  std::function<Limits(const Owner&)> limits = [](const Owner&) { return Limits{}; };
};

record::Rules rules_of(const Settings& settings);

// Decides in place of a policy from outside that gives no decision.
inline constexpr const char* kStandIn = "max-min";

// What the hosts of a cluster are used for, for whoever gets more of them.
struct SlotDemand {
  struct HostUse {
    std::string name;
    std::uint32_t slots = 0;  // 0: the list of hosts lacks it
    std::uint32_t used = 0;   // slots with processes of runs, at most
  };
  std::uint32_t needed = 0;  // slots that jobs could use now
  std::string why;           // who lacks some
  std::vector<HostUse> hosts;
};

struct ClusterState;

class Cluster {
 public:
  explicit Cluster(Settings settings);
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // Before begin(): what the journal of the previous process says.
  void recall(const Record& record, double now_s);
  // Whether a journal without this record would say something else of what is known now.
  bool needs(const Record& record) const;
  // After the last record. Runs that may be there are given resume_timeout_s to come back and to say what they know.
  Actions begin(double now_s);
  Actions step(const Event& event, double now_s);
  // When to step(Tick) at the latest; infinite: never.
  double wake_s(double now_s);

  const Settings& settings() const;
  const std::map<JobId, Job>& jobs() const;
  const heuristics::leases::LeaseBook& book() const;
  const std::vector<HostLine>& hosts() const;  // by number; slots 0: gone
  std::uint32_t slots() const;
  // A job that waits could use the slots that its user would run it on. One that trains could use one more slot if that
  // brings at least `least_gain` of what its slots bring on average, up to twice what it has been measured with.
  // Within the limits of users; what is paused or over needs nothing. At most `most_slots`.
  SlotDemand demand() const;
  const std::vector<HostLine>& helpers() const;
  // Slots that a request in progress asks for, and since when; 0: there is none.
  std::uint32_t asked_slots() const;
  double asked_s() const;
  bool resuming() const;
  // Jobs without slots that may have some, in the order in which they are considered.
  std::vector<JobId> waiting() const;
  // Seconds until the job ends if nothing changes; nothing: not known.
  std::optional<double> left_s(const Job& job) const;
  // Samples of the whole job, as decisions count them.
  std::optional<double> length_of(const Job& job) const;
  std::uint64_t decisions() const;
  // Why the stand-in decides and not the policy from outside; empty: that decides.
  const std::string& policy_problem() const;
  // Empty: it may be a job of this cluster now. Else why not, and the kind of reason.
  std::string refusal(const Owner& owner, const Limits& limits, const JobSpec& spec, Outcome& outcome) const;

  std::vector<std::string> broken_rules() const;

 private:
  std::unique_ptr<ClusterState> state_;
};

// What a policy is told of a job's throughput: what was measured, and a line through it elsewhere. `guess`: samples a
// second of one worker, where nothing was measured.
heuristics::sharing::Curve curve_of(const Job& job, std::uint32_t most, double guess);
heuristics::sharing::Curve goodput_of(const Job& job, std::uint32_t most, const heuristics::sharing::Curve& throughput);

}  // namespace elastictrain::cluster_core
