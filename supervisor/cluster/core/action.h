// Purpose: actions of a cluster, for its edge to carry out in order: a record is on disk before the actions after it
// are carried out.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "supervisor/cluster/core/record.h"

namespace elastictrain::jobs {

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

}  // namespace elastictrain::jobs
