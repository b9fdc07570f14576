// Purpose: actions of a cluster for its edge, and the records of its journal, which are actions as well.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "supervisor/cluster/core/event.h"

// The records of a cluster's journal. Those that change what is known of jobs and leases are enough to know
// all of it again after a restart; the others say what was decided, and why.

namespace elastictrain::cluster_core::record {

// Settings on which decisions depend, so that a journal says how they were made.
struct Rules {
  double slice_s = 0;
  double decide_after_s = 0;
  double recall_timeout_s = 0;
  std::uint32_t suspended_per_slot = 0;
  bool packing = false;
  bool estimated_lengths = false;
  bool migration = true;
  bool outside = false;  // the policy is a program or a library
  std::uint64_t seed = 1;
};
struct Began {
  std::string version, policy;
  std::optional<Rules> rules;  // nothing: an older version wrote it
};
struct Hosts {
  std::vector<HostLine> hosts;
};
struct Helpers {
  HelpersChanged change;
  std::uint32_t needed = 0;  // slots that jobs could use
  std::string why;           // of a request: for whom
};
struct Submitted {
  JobId job = 0;
  Owner owner;
  JobSpec spec;
  double unix_s = 0;
};
// A share in a decision.
struct Share {
  JobId job = 0;
  std::uint32_t before = 0, after = 0;
  std::string why;
  JobId beside = 0;  // whose slots it shares; 0: they are its own
};
// Jobs whose share changes. Before the leases that follow from it.
struct Decided {
  std::string trigger, policy;
  std::uint32_t slots = 0;  // that there were to share
  std::uint32_t jobs = 0;   // that took part
  std::uint32_t waiting = 0;
  std::vector<Share> shares;
};
// What the policy from outside was asked and has answered. Before the decision that follows from it.
struct PolicyAsked {
  std::int32_t priority = 0;
  std::string view, answer;  // as JSON; the view is empty if it is too long for a journal
  std::string problem;       // why the answer is no decision
};
struct Leased {
  JobId job = 0;
  std::uint64_t version = 0;
  Slots slots;
  std::string reason;
  bool hold = false;   // stand still there
  JobId beside = 0;    // works on slots of this lease, too
  bool moves = false;  // what it no longer names is exchanged for other slots
};
// Its workers move from some slots to others. Before the lease that says so.
struct Moving {
  JobId job = 0;
  Slots from, to;  // all of its slots, before and after
  std::string why;
  Slots kept;           // free ones that the job may have for which it makes room
  bool undoes = false;  // an earlier move that did not pay
};
enum class MoveOutcome : std::uint8_t {
  kDone,        // all have moved
  kSuperseded,  // something else was decided meanwhile
  kTakenBack,   // they stay where they were
  kKept,        // it was measured that it trains at least as fast as before
  kUndone,      // it was measured that it trains slower: it is to move back
};
struct MoveEnded {
  JobId job = 0;
  MoveOutcome outcome = MoveOutcome::kDone;
  std::string why;
};
// What a run has said, and decisions count with from now on. What it has not said is 0, or empty.
struct Learned {
  JobId job = 0;
  double start_s = 0;         // that its newest workers took to start
  std::uint32_t workers = 0;  // that train since then
  std::optional<std::uint64_t> samples_total;
  std::uint64_t expected_samples = 0, expected_error = 0;
  std::vector<RateSeen> rates;  // of sizes that were not measured before
  bool empty() const { return start_s == 0 && !samples_total && expected_samples == 0 && rates.empty(); }
};
// It stands still, and its slots pass on.
struct Stood {
  JobId job = 0;
  Slots slots;
};
struct Returned {
  JobId job = 0;
  Slots slots;
};
struct Started {
  JobId job = 0;
  bool resume = false;
};
struct HasJoined {
  JobId job = 0;
  std::string directory;
  std::int64_t pid = 0;
  bool suspends = false;
  std::uint64_t lease = 0;
  Slots holds;
  std::string process_mark;
};
struct Lost {
  JobId job = 0;
};
struct Ordered {
  JobId job = 0;
  Order order = Order::kCancel;
  std::int32_t priority = 0;
  std::string by;
};
struct Overdue {
  JobId job = 0;
  Slots slots;
};
// Its run has left with a checkpoint, or is to be taken up again after a failure.
struct Left {
  JobId job = 0;
  int status = 0;
  std::string why;
  bool resume = true;  // there is something to take up
};
struct HasEnded {
  JobId job = 0;
  int status = 0;
  std::string why;
  std::uint64_t samples = 0;
  double slot_s = 0;
  std::vector<RateSeen> rates;  // by workers
};

}  // namespace elastictrain::cluster_core::record

namespace elastictrain::cluster_core {

using Record = std::variant<record::Began, record::Hosts, record::Helpers, record::Submitted, record::Decided,
                            record::Leased, record::Stood, record::Returned, record::Started, record::HasJoined,
                            record::Lost, record::Ordered, record::Overdue, record::Left, record::HasEnded,
                            record::Moving, record::MoveEnded, record::PolicyAsked, record::Learned>;

// Actions of a cluster, for its edge to carry out in order: a record is on disk before the actions after it
// are carried out.

struct Write {
  Record record;
};

// kFull: not now, but later, when jobs have ended.
enum class Outcome : std::uint8_t { kDone, kInvalid, kUnavailable, kNotPermitted, kFull };
struct Answer {
  Request request = 0;
  Outcome outcome = Outcome::kDone;
  std::string text;
  JobId job = 0;  // of a submission
};

struct Welcome {
  Connection connection = 0;
  JobId job = 0;
};
// The connection is closed after it.
struct Refuse {
  Connection connection = 0;
  std::string text;
};
struct SendLease {
  Connection connection = 0;
  std::uint64_t version = 0;
  Slots slots;
  std::string reason;
  bool hold = false;   // stand still there
  JobId beside = 0;    // works on slots of this lease, too
  bool moves = false;  // what it no longer names is exchanged for other slots
};
struct SendPlace {
  Connection connection = 0;
  std::uint32_t place = 1, of = 1;
  std::string why;
};
struct SendEnd {
  Connection connection = 0;
  std::string why;
};
// Starts `elastictrain run` of the job, or `run --resume`. A ProcessEnded follows.
struct StartRun {
  JobId job = 0;
  std::uint32_t attempt = 0;
  bool resume = false;
};
struct SignalRun {
  JobId job = 0;
  std::uint32_t attempt = 0;
  bool kill = false;  // KILL, else TERM
};
// Looks whether the job's supervisor is alive. A Probed follows.
struct Probe {
  JobId job = 0;
};
struct Tell {
  std::string text;
  bool warning = false;
};
// Asks the policy from outside. A PolicyAnswered of this question follows, in any case.
struct AskPolicy {
  std::uint64_t question = 0;
  std::shared_ptr<const PolicyQuestion> asked;
};

using Action = std::variant<Write, Answer, Welcome, Refuse, SendLease, SendPlace, SendEnd, StartRun, SignalRun, Probe,
                            Tell, AskPolicy>;
using Actions = std::vector<Action>;

}  // namespace elastictrain::cluster_core
