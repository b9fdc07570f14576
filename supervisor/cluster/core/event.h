// Purpose: events of a cluster. Everything is checked before it gets here as far as one message can be checked alone:
// texts and lists are bounded, numbers are in their ranges, hosts and slots exist.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "heuristics/leases/lease_book.h"
#include "supervisor/cluster/core/job.h"

namespace elastictrain::cluster_core {

using Request = std::uint64_t;  // whom to answer

struct HostLine {
  std::string name;
  std::uint32_t slots = 0;
  std::string job = {};  // of a batch system, if the host belongs to a helper job
  bool operator==(const HostLine&) const = default;
};

// The whole list; hosts that are not on it are gone.
struct HostsChanged {
  std::vector<HostLine> hosts;
};

// What happens to hosts of helper jobs, before it is carried out.
struct HelpersChanged {
  enum class What : std::uint8_t { kAsked, kWithdrawn, kFailed, kCame, kLeft, kLost, kReturned };
  What what = What::kAsked;
  std::uint32_t slots = 0;        // asked for, or of the hosts that come or go
  std::string text;               // names of hosts, or why a request failed
  std::vector<HostLine> helpers;  // all that have to be given back one day
};

struct Submit {
  Request request = 0;
  Owner owner;
  Limits limits;
  JobSpec spec;
  double unix_s = 0;
};

// A run's supervisor has come.
struct Join {
  Connection connection = 0;
  Owner owner;
  Limits limits;
  std::string job;  // id that submit gave; empty: none
  std::string directory;
  std::int64_t pid = 0;
  std::string process_mark;  // of that process (launcher/process/process_identity.h); empty: it gets no signals
  JobSpec spec;              // without arguments
  bool moves = false;        // it knows leases that exchange slots
  std::uint64_t lease = 0;
  Slots holds;
  double unix_s = 0;
};

struct RateSeen {
  std::uint32_t workers = 0;
  double samples_per_s = 0;
  std::uint32_t views = 0;
  bool packed = false;      // while another run shared its slots
  std::uint32_t hosts = 1;  // on which its workers were
};

struct Report {
  Connection connection = 0;
  std::uint64_t lease = 0;
  Slots holds;
  std::string phase;
  bool stands = false;  // all its workers have halted, as its lease says
  std::uint32_t workers = 0;
  std::uint64_t step = 0;
  std::uint64_t samples = 0;
  std::optional<std::uint64_t> samples_total;
  std::uint64_t expected_samples = 0;  // by its loss; 0: not known
  std::uint64_t expected_error = 0;
  std::vector<heuristics::sharing::Curve::Point> goodput;  // by rising slots, rates above 0; empty: not said
  std::vector<RateSeen> rates;
  std::uint64_t memory_bytes = 0;
  std::optional<std::uint32_t> wants;
  std::vector<std::uint32_t> lost_hosts;
};

struct RunEnded {
  Connection connection = 0;
  int status = 0;
};

struct Disconnected {
  Connection connection = 0;
};

// The process that was started for a job has ended.
struct ProcessEnded {
  JobId job = 0;
  std::uint32_t attempt = 0;
  int status = 0;  // exit status, or 128 + signal
  bool by_signal = false;
  std::string text;  // its last words
};

// The answer to a Probe action.
struct Probed {
  enum class State : std::uint8_t { kAlive, kDead, kEnded, kNoRun, kUnknown };
  JobId job = 0;
  State state = State::kUnknown;
  int status = 0;  // of kEnded
};

enum class Order : std::uint8_t { kCancel, kPause, kResume, kPriority };

// A user's order about a job.
struct Command {
  Request request = 0;
  Owner owner;
  Limits limits;
  Order order = Order::kCancel;
  std::string job;  // id or name
  std::int32_t priority = 0;
};

// What the policy from outside is asked: a view, and the curves that it points to.
struct PolicyQuestion {
  heuristics::sharing::View view;
  std::vector<heuristics::sharing::Curve> curves;
};

// Its answer, checked against the view (sharing/grants.h), or its problem.
struct PolicyAnswered {
  std::uint64_t question = 0;  // 0: nobody has asked
  heuristics::sharing::Decision decision;
  bool is_last = false;      // it gives no more answers
  std::string view, answer;  // as JSON, for the journal
};

struct Tick {};

using Event = std::variant<HostsChanged, HelpersChanged, Submit, Join, Report, RunEnded, Disconnected, ProcessEnded,
                           Probed, Command, PolicyAnswered, Tick>;

}  // namespace elastictrain::cluster_core
