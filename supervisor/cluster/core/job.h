// Purpose: one job of a cluster: what was asked for, whose it is, and what is known of its run. Plain data; times are
// seconds of the cluster's own clock, which goes on where it stood after the cluster process was restarted.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heuristics/leases/lease_book.h"
#include "heuristics/sharing/view.h"

namespace elastictrain::cluster_core {

using JobId = std::uint64_t;       // from 1, never used again; 0: none
using Connection = std::uint64_t;  // of a run's supervisor, from 1; 0: none

using heuristics::leases::Slots;

inline constexpr double kNever = heuristics::sharing::kNever;

std::string id_text(JobId id);  // "j7"
std::uint32_t hosts_of(const Slots& slots);

struct Owner {
  std::uint32_t uid = 0;
  std::string name;         // of the user, for people
  bool of_cluster = false;  // the cluster's own user, or root: may act on all jobs
  bool operator==(const Owner&) const = default;
};

// What a user may have. kNoLimit: any number.
inline constexpr std::uint32_t kNoLimit = UINT32_MAX;
struct Limits {
  std::uint32_t slots = kNoLimit;
  std::uint32_t running = kNoLimit;
  std::uint32_t queued = kNoLimit;  // jobs that have not ended
  std::int32_t priority = 0;        // the highest that the user may give
  bool submit = true;
};

// What is asked for.
struct JobSpec {
  std::string name;                    // of its run
  std::vector<std::string> arguments;  // of `elastictrain run`; empty: the user starts the run
  std::string working_directory;
  std::vector<std::string> environment;  // "NAME=value"
  std::uint32_t min = 1;
  std::uint32_t max = 1;
  std::uint32_t start = 1;
  std::int32_t priority = 0;
  std::optional<std::uint64_t> samples_total;
  std::optional<double> deadline_s;  // after its submission
  bool suspends = false;             // leaves with a checkpoint when its lease is empty
  bool stands = false;               // stands still in memory when its lease says so
  bool one_host = false;
  std::uint32_t most_hosts = 0;    // 0: any number
  std::vector<std::string> hosts;  // only these; empty: any
  bool operator==(const JobSpec&) const = default;
};

enum class Phase : std::uint8_t {
  kQueued,    // it has no process; `resume` says whether it has run before
  kStarting,  // its process was started and has not joined
  kJoined,
  kLost,    // its connection was lost, and its slots stay its own
  kEnding,  // it was told to end
  kEnded,
};

const char* name_of(Phase phase);

constexpr std::uint32_t kFewestViews = 3;  // that make a measurement

// Sizes and numbers of hosts of which speeds are kept, of one job.
inline constexpr std::size_t kMostRates = 1024;
inline constexpr std::size_t kMostRatesOfEnded = 64;  // sizes, of a job that has ended: for the next one of its name

struct Measured {
  double samples_per_s = 0;
  std::uint32_t views = 0;
  // A point of its job's curve; before, it is only a guess of what one worker does.
  bool counts() const { return views >= kFewestViews && samples_per_s > 0; }
};

// What a job has measured while it shared slots with another one.
struct Packed {
  JobId beside = 0;           // 0: it shares none
  std::uint64_t version = 0;  // of the lease that said so first
  Measured rate;              // at its present size
};

// Its workers move from some slots to others. Slots: all of its own, before and after.
struct Move {
  Slots from, to;
  std::string why;
  double begun_s = 0;
  bool back = false;  // it has taken too long
  bool undoes = false;
  Slots kept;  // for a job that waits for the slots that become free: nobody else is given these meanwhile
};

// It has moved, and is measured where it is now.
struct Trial {
  Slots from, to;
};

// A host that its run has found lost.
struct HostLoss {
  bool reported = false;  // in its newest report
  double wait_s = 0;      // before it is given the host again
  double until_s = 0;     // until then
};

struct Job {
  JobId id = 0;
  JobSpec spec;
  Owner owner;
  Limits limits;
  Phase phase = Phase::kQueued;
  double submitted_s = 0;
  double submitted_unix_s = 0;
  bool paused = false;
  bool resume = false;  // its run exists already: it is taken up, not started
  std::string why;      // of its present share, or of its end

  Connection connection = 0;
  std::string directory;  // of its run
  std::int64_t pid = 0;
  std::string process_mark;    // of the process with this pid; empty: it gets no signals
  std::uint32_t attempt = 0;   // of its process
  bool process = false;        // this attempt's process is a child of the cluster process and has not ended
  std::uint32_t failures = 0;  // starts in a row that led to nothing
  std::uint64_t samples_at_start = 0;
  double not_before_s = 0;    // the next start
  double lost_s = 0;          // since when, in kLost
  double probed_s = 0;        // when its process was last looked at, in kLost
  double ending_s = 0;        // since when, in kEnding
  std::uint32_t signals = 0;  // that it was sent in kEnding

  bool reported = false;  // since it joined: what it has measured is known
  std::string run_phase;
  std::uint32_t workers = 0;
  std::uint64_t step = 0;
  std::uint64_t samples = 0;
  std::uint64_t expected_samples = 0;                      // of the whole job, by its loss; 0: not known
  std::uint64_t expected_error = 0;                        // of that, in samples, to both sides
  std::vector<heuristics::sharing::Curve::Point> goodput;  // as its run says; empty: it does not
  std::uint64_t memory_bytes = 0;
  std::optional<std::uint32_t> wants;
  std::map<std::uint32_t, Measured> rates;                                     // by workers, while it shared no slots
  std::map<std::pair<std::uint32_t, std::uint32_t>, Measured> rates_by_hosts;  // by workers and hosts
  Packed packed;
  bool moves = false;           // its run knows leases that exchange slots
  double start_s = 10;          // of its workers, as far as is known
  double measured_start_s = 0;  // 0: it was not measured
  heuristics::sharing::Starts starts;
  double placed_s = 0;               // its newest lease
  std::uint32_t leased = 0;          // slots of that
  std::uint64_t leased_version = 0;  // of that, since the cluster process began
  double may_move_from_s = 0;        // after a move that came to nothing
  std::optional<Move> move;
  std::optional<Trial> trial;
  std::map<std::uint32_t, HostLoss> losses;  // by host
  std::vector<std::uint32_t> lost_hosts;     // of these, those that it is not given now
  std::uint32_t slots_in_time = 0;           // that it is to have at least, to end in time; 0: none
  bool in_time = false;                      // they could be given
  bool foreseen = false;                     // how many they are is known
  bool overdue_reported = false;
  bool to_stand = false;             // once it has given back what it has to
  bool below_share = false;          // it goes on with fewer slots than it may have
  std::uint32_t place_reported = 0;  // in the queue; 0: none
  std::uint32_t places_reported = 0;

  // As the policy knows it: policies take a job that is not in their view for one that has ended, so a job that was
  // away has another number when it is back. 0: it is away.
  std::uint64_t seen_as = 0;
  std::int32_t seen_priority = 0;
  std::uint32_t share = 0;  // slots that it is meant to have
  JobId beside = 0;         // whose slots those are; 0: its own
  bool pays = false;        // to be there, as far as is measured
  double settled_s = 0;     // up to which the next three are counted
  double running_s = 0;
  double slot_s = 0;
  double first_start_s = kNever;
  int exit_status = 0;
  double ended_s = 0;

  bool own() const { return !spec.arguments.empty(); }
  bool live() const { return phase != Phase::kEnded; }
  bool has_lost(std::uint32_t host) const {
    return std::find(lost_hosts.begin(), lost_hosts.end(), host) != lost_hosts.end();
  }
  bool may_run() const { return phase == Phase::kQueued || phase == Phase::kStarting || phase == Phase::kJoined; }
};

}  // namespace elastictrain::cluster_core
