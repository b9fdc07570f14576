// Purpose: a sharing policy's view of a cluster with many jobs, and its decision.
//
// Pure values, the same live and simulated. Times in seconds since any common instant. Work in a unit of the job's own
// (iterations, samples); only its ratio to the throughput matters.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "heuristics/sharing/curve.h"
#include "heuristics/sharing/starts.h"

namespace elastictrain::heuristics::sharing {

inline constexpr double kNever = std::numeric_limits<double>::infinity();
inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

inline constexpr std::uint64_t kNoJob = std::numeric_limits<std::uint64_t>::max();

struct JobView {
  std::uint64_t id = 0;  // never used again for another job
  double arrival_s = 0;
  std::uint32_t requested = 1;   // slots at which its user would run it, at most those of the cluster
  const Curve* curve = nullptr;  // never null; lives as long as the view
  double remaining = kUnknown;   // work
  double done = 0;               // work
  double held = 0;               // slots now
  double running_s = 0;          // time with slots
  double attained_slot_s = 0;    // slots x time held
  double first_start_s = kNever;
  std::uint32_t least = 1;  // fewer slots are of no use to it
  double start_s = 0;       // of its workers, as measured; 0: it costs nothing, or is not known
  Starts starts;
  double cpus_per_slot = 0;  // what one slot takes of the other resources; 0: nothing that is scarce
  double memory_per_slot_bytes = 0;

  // Of jobs that may share slots with another one; see Grant::beside.
  bool packs = false;             // it may
  std::uint64_t beside = kNoJob;  // whose slots it shares, as the last decision was carried out
  std::optional<std::uint64_t>
      only_beside;                 // it stands still on slots: those of this job, or kNoJob: of none or several
  double alone_rate = kUnknown;    // work a second at `requested` slots, measured with nobody else there
  double packed_rate = kUnknown;   // beside the one that shares slots with it now
  std::uint32_t packed_views = 0;  // measurements of packed_rate so far

  bool started() const { return first_start_s < kNever; }
};

// A job that has ended since the last view.
struct EndedJob {
  std::uint64_t id = 0;
  std::uint32_t requested = 1;
  double attained_slot_s = 0;
  double work = 0;  // all that it did
  const Curve* curve = nullptr;
};

struct Host {
  std::string name;
  std::uint32_t slots = 0;  // that jobs may have
};

struct View {
  double now_s = 0;
  std::uint32_t slots = 0;
  double cpus = 0;            // 0: not counted
  double memory_bytes = 0;    // 0: not counted
  std::vector<JobView> jobs;  // by arrival; ties between jobs go to the earlier place
  std::vector<EndedJob> ended;
  // For policies from outside.
  std::int32_t priority = 0;  // of these jobs; others are decided on apart
  std::vector<Host> hosts;    // empty: the slots are one pool
};

enum class Why : std::uint8_t {
  kWaits,    // no room for it now
  kFits,     // its turn, and its request fits
  kQueue,    // number: its queue
  kFair,     // number: what the policy holds equal (slots, dominant share, finish-time ratio)
  kGain,     // number: what its last slot gains
  kAlone,    // all jobs have as much as they can use
  kTurn,     // number: until when its time slice lasts
  kTried,    // it shares slots, and that is being measured; number: both speeds relative to those alone, 0: none yet
  kKept,     // the same, and it pays; number: as kTried
  kUndone,   // it shared slots, and that did not pay; number: as kTried
  kStarted,  // the policy would take slots from it that have just been given; number: until when it keeps them
  kStarts,   // the slots that the policy gives it are kept by jobs that have just been given them
  kLeaves,   // its length is not known, and slots on which nothing trains go to jobs that have had none
  kFirst,    // its first slots, which such a job leaves to it
  kPays,     // its size follows from what its workers' starts cost; number: how long one takes
  kSaid,     // as a policy from outside says: Decision::reasons
};

const char* name(Why why);

struct Grant {
  double slots = 0;  // whole, except under max-min-fluid
  Why why = Why::kWaits;
  double number = 0;
  std::uint64_t beside = kNoJob;  // it shares the slots of this job, which is granted as many
  std::uint32_t looks = 0;        // at both together so far
};

struct Decision {
  std::vector<Grant>
      grants;  // one per job of the view, in its order; the sum of those beside nobody is at most View::slots
  double again_s = kNever;  // decide again at this time even if nothing happens before
  // Of a policy from outside: one per job; and why it gave no decision, if this is none.
  std::vector<std::string> reasons;
  std::string problem;
};

}  // namespace elastictrain::heuristics::sharing
