// Purpose: the decision of a policy and its reason. It may turn out to be infeasible; the next view shows the outcome.
//
// Pure values. Unset members keep the present state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace elastictrain::heuristics {

// The code of a policy that waits for a change in progress.
inline constexpr const char* kChanging = "changing";
// The code of a policy that gives up a growth of its own whose workers still start.
inline constexpr const char* kTakenBack = "taken_back";
// The code of a policy that has found its size.
inline constexpr const char* kSettled = "settled";

// `code` is an identifier that programs compare ("efficiency_too_low"). `text` is a line for users with the numbers in
// it ("efficiency of 6->7 was 0.31 < 0.5"). `numbers` are the same figures for programs.
struct Reason {
  std::string code;
  std::string text;
  std::vector<std::pair<std::string, double>> numbers;
};

struct Replacement {
  std::uint64_t worker = 0;
  Reason reason;
  bool other_host = false;  // its own host is slow: do not place it there again
};

struct WorkerSpeed {
  std::uint64_t worker = 0;
  double speed = 1;  // samples per second, in any common unit
};

// The rate at which the job would learn with so many workers, at the batch that is best there: samples a second times
// their value. Only ratios of rates count.
struct GoodputAt {
  std::uint32_t workers = 0;
  double rate = 0;
};

struct JobDecision {
  std::optional<std::uint32_t> workers;
  std::vector<Replacement> replacements;
  // Shares are proportional to these. A worker that is not in the list has speed 1, so an empty list means equal
  // shares.
  std::optional<std::vector<WorkerSpeed>> speeds;
  std::optional<std::uint32_t> per_worker_batch;
  std::optional<double> learning_rate_factor;  // replaces the rule's
  std::optional<std::string> topology;         // a name, or a tree as its parents by rank: "1,1,1"
  std::optional<std::string> synchronization;
  bool wants_more = false;  // what it has found is the largest size that it may have, and a larger one would be tried
  std::vector<GoodputAt> goodput;  // by rising workers, for a cluster's policy; empty: as it was
  Reason reason;                   // always set, also if nothing changes ("settled", "measuring")
  bool changes() const {
    return workers || !replacements.empty() || speeds || per_worker_batch || learning_rate_factor || topology ||
           synchronization;
  }
};

struct Decision {
  std::vector<JobDecision> jobs;  // one per job of the view, in its order
};

}  // namespace elastictrain::heuristics
