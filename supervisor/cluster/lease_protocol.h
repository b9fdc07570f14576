// Purpose: messages between a run and its cluster, each as one JSON object on a line of its own over the cluster's Unix
// socket. A run's connection begins with its Join and lasts as long as the run.
//
//   up {"command":"join","protocol":1,"job":"j7"|null,"run":"NAME","directory":"/runs/NAME","pid":123,"min":1,"max":8,
//          "start":2,"lease":0,"holds":[{"host":"h1","slots":[0,1]}],"samples_total":N|null,"suspend":["file"],
//          "moves":true,"wishes":{"one_host":false,"most_hosts":0,"hosts":[]},
//          "priority":0,"deadline_s":N|null}
//   down  {"ok":true,"job":"j7"}  or  {"ok":false,"text":"why"}, after which the connection is closed
//   down  {"lease":{"version":7,"slots":[{"host":"h1","slots":[0,1,3],"of":8}],"hold":false,"reason":"…",
//          "beside":"j2","moves":true}}  beside: a job that has these slots, too; absent: none. moves: slots that the
//          lease before it named and this one does not are exchanged for others; their workers train until successors
//          take their places. Only for a run whose join says that it knows this; absent: false.
//          A host of a helper job has "job":"ID" as well, by which the batch system starts an agent there
//   down  {"queue":{"place":3,"of":7,"why":"…"}}  while it has no slots
//   down  {"end":{"why":"…"}}
//   up    {"report":{"lease":7,"holds":[…],"phase":"training","workers":4,"step":120,"samples":30720,
//          "samples_total":N|null,"expected_samples":N,"expected_error":N (absent: not known),
//          "goodput":[{"workers":4,"rate":520.0}] (absent: not said), by rising workers,
//          "rates":[{"workers":4,"hosts":1,"samples_per_s":812.0,"views":12}],
//          "packed_rates":[…], which were measured beside the job of the newest lease; "memory_bytes":N,
//          "wants":N|null,"lost_hosts":["h3"]}}
//   up    {"ended":{"status":0}}, after which the run holds nothing
//
// Pure values and functions. Errors: kInvalid with a text for the peer that says which field must be what; every text,
// list and number is bounded before it is used. Fields that are not known are ignored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "supervisor/protocol/result.h"

namespace elastictrain::cluster {

inline constexpr std::uint32_t kLeaseProtocol = 1;
inline constexpr const char* kClusterSocketName = "cluster.sock";
inline std::string socket_of_cluster(const std::string& directory) {
  return directory + "/" + kClusterSocketName;
}
inline constexpr std::size_t kMaxLineBytes = 1u << 20;
inline constexpr int kMaxMessageDepth = 8;
inline constexpr std::size_t kMaxNameBytes = 255;
inline constexpr std::size_t kMaxTextBytes = 4096;
inline constexpr std::size_t kMaxHosts = 16'384;
inline constexpr std::uint32_t kMaxSlotsOfHost = 1024;
inline constexpr std::uint32_t kMaxLeasedSlots = 100'000;
inline constexpr std::uint64_t kMaxDeadline_s = 3650ull * 24 * 3600;  // ten years
inline constexpr std::int32_t kMaxPriority = 1000;                    // and the least, negative
inline constexpr std::size_t kMaxRates = 1024;
inline constexpr std::uint64_t kMaxCount = 1'000'000'000'000'000;  // of samples, steps, bytes, versions

// Slots of one host by number, ascending, each once.
struct HostSlots {
  std::string host;
  std::vector<std::uint32_t> slots;
  std::uint32_t of = 0;  // slots that the host has, 0 to of-1; 0: not said
  std::string job = {};  // of a batch system, that the host belongs to; empty: none, or that of the cluster
  bool operator==(const HostSlots&) const = default;
};

struct HostDemand {
  bool one_host = false;
  std::uint32_t most_hosts = 0;    // 0: any number
  std::vector<std::string> hosts;  // only these; empty: any
  bool operator==(const HostDemand&) const = default;
};

struct Join {
  std::uint32_t protocol = kLeaseProtocol;
  std::optional<std::string> job = {};  // the id that submit gave; nothing: the cluster makes a job of this run
  std::string run;
  std::string directory;
  std::int64_t pid = 0;
  std::uint32_t min = 1;
  std::uint32_t max = 1;
  std::uint32_t start = 1;
  std::uint64_t lease = 0;  // the newest version that the run has seen; 0: none
  std::vector<HostSlots> holds = {};
  std::optional<std::uint64_t> samples_total = {};
  bool suspends_to_file = false;    // "suspend" contains "file": an empty lease makes it write a checkpoint and leave
  bool suspends_in_memory = false;  // "suspend" contains "host": `hold` of a lease makes it stand still
  bool moves = false;               // it knows `moves` of a lease
  HostDemand demand = {};
  std::int32_t priority = 0;
  std::optional<std::uint64_t> deadline_s = {};  // after it has become a job
  bool operator==(const Join&) const = default;
};

// Throughput that was measured at a size.
struct Rate {
  std::uint32_t workers = 1;
  std::uint32_t hosts = 1;
  double samples_per_s = 0;
  std::uint32_t views = 1;  // measurements that it is the mean of
  bool operator==(const Rate&) const = default;
};

// The rate at which a run would learn with so many workers, in a unit of its own.
struct GoodputRate {
  std::uint32_t workers = 1;
  double rate = 0;
  bool operator==(const GoodputRate&) const = default;
};

enum class JobPhase : std::uint8_t {
  kWaiting,    // without slots: it has not started yet, or has left its slots with a checkpoint
  kStarting,   // no generation trains yet
  kTraining,   // also while it changes or recovers
  kSuspended,  // its workers stand still and keep their state in memory
  kEnding,
};

struct Report {
  std::uint64_t lease = 0;       // the version that the run follows
  std::vector<HostSlots> holds;  // slots on which a process of the run exists or may exist
  JobPhase phase = JobPhase::kWaiting;
  std::uint32_t workers = 0;  // that train
  std::uint64_t step = 0;
  std::uint64_t samples = 0;
  std::optional<std::uint64_t> samples_total;
  std::uint64_t expected_samples = 0;  // of the whole job, by its loss, where samples_total is not known; 0: not known
  std::uint64_t expected_error = 0;    // of that, in samples
  std::vector<GoodputRate> goodput = {};  // by rising workers; empty: the run's policy does not say it
  std::vector<Rate> rates = {};
  std::vector<Rate> packed_rates = {};  // beside the other job of the lease; `views` counts all of them
  std::uint64_t memory_bytes = 0;       // of the largest worker; 0: not known
  std::optional<std::uint32_t> wants;   // slots that its own policy asks for; nothing: as many as it is given
  std::vector<std::string> lost_hosts;  // that it found lost
  bool operator==(const Report&) const = default;
};

struct Ended {
  std::uint8_t status = 0;  // exit status of the run
  bool operator==(const Ended&) const = default;
};

struct Joined {
  std::string job;
  bool operator==(const Joined&) const = default;
};

struct Refused {
  std::string text;
  bool operator==(const Refused&) const = default;
};

// All slots that the run may use from now on. A version that is not newer than the last one changes nothing.
struct Lease {
  std::uint64_t version = 0;  // from 1
  std::vector<HostSlots> slots;
  bool hold = false;  // stand still on these slots
  std::string reason;
  std::string beside = {};  // the id of a job that has these slots, too; empty: none
  bool moves = false;       // slots that it no longer names are exchanged for others
  bool operator==(const Lease&) const = default;
};

struct QueuePlace {
  std::uint32_t place = 1;
  std::uint32_t of = 1;
  std::string why;
  bool operator==(const QueuePlace&) const = default;
};

struct End {
  std::string why;
  bool operator==(const End&) const = default;
};

using FromRun = std::variant<Join, Report, Ended>;
using FromCluster = std::variant<Joined, Refused, Lease, QueuePlace, End>;

// One line without its end. Texts longer than their bound are cut.
std::string to_line(const FromRun& message);
std::string to_line(const FromCluster& message);

Result<FromRun> from_run(std::string_view line);
// Of a line that is parsed already (kMaxMessageDepth).
Result<FromRun> run_message(const nlohmann::json& message);
bool is_join(const nlohmann::json& message);
Result<FromCluster> from_cluster(std::string_view line);

const char* name_of(JobPhase phase);

std::uint64_t count(const std::vector<HostSlots>& slots);

}  // namespace elastictrain::cluster
