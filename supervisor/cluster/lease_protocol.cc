#include "supervisor/cluster/lease_protocol.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "supervisor/cluster/message_texts.h"
#include "supervisor/protocol/json_text.h"

namespace elastictrain::cluster {

inline constexpr std::string_view kPhaseNames[] = {"waiting", "starting", "training", "suspended", "ending"};
inline constexpr std::string_view kWaysToSuspend[] = {"file", "host"};

enum class WayToSuspend : std::uint8_t { kToFile, kInMemory };

}  // namespace elastictrain::cluster

namespace elastictrain::json_fields {

template <>
struct Codec<cluster::JobPhase> : NameCodec<cluster::JobPhase, cluster::kPhaseNames> {};
template <>
struct Codec<cluster::WayToSuspend> : NameCodec<cluster::WayToSuspend, cluster::kWaysToSuspend> {};

}  // namespace elastictrain::json_fields

namespace elastictrain::cluster {

using json_fields::kOptional;
using json_fields::kUnlessZero;
using json_fields::Of;
using json_fields::Reader;
using json_fields::within;
using json_fields::within_real;
using nlohmann::json;

static constexpr double kLeastRate = 1e-12;
static constexpr double kMostRate = static_cast<double>(kMaxCount);

// --- The fields of each message, and what must hold of them together

template <class Io, Of<HostSlots> T>
void each_field(Io& io, T& v) {
  io("host", v.host, kHostName);
  io("slots", v.slots, within(0, kMaxSlotsOfHost - 1).at_most(kMaxSlotsOfHost).optional());
  io("of", v.of, within(0, kMaxSlotsOfHost).unless_zero());
  io("job", v.job, kHostName.unless_zero());
}

static void check(Reader& from, HostSlots& host) {
  std::sort(host.slots.begin(), host.slots.end());
  if (std::adjacent_find(host.slots.begin(), host.slots.end()) != host.slots.end()) from.wrong("slots", "distinct");
  if (host.of > 0 && !host.slots.empty() && host.slots.back() >= host.of) {
    from.wrong("slots", "below " + std::to_string(host.of) + ", the number of slots of the host");
  }
}

static constexpr auto kHosts = kOptional.at_most(kMaxHosts);

// A host without slots is left out.
static void check_slots(Reader& from, const char* name, std::vector<HostSlots>& list) {
  if (count(list) > kMaxLeasedSlots) from.wrong(name, "at most " + std::to_string(kMaxLeasedSlots) + " slots");
  std::erase_if(list, [](const HostSlots& host) { return host.slots.empty(); });
  std::vector<std::string_view> hosts;
  for (const HostSlots& host : list) hosts.push_back(host.host);
  std::sort(hosts.begin(), hosts.end());
  if (std::adjacent_find(hosts.begin(), hosts.end()) != hosts.end()) from.wrong(name, "a list that names a host once");
}

template <class Io, Of<HostDemand> T>
void each_field(Io& io, T& v) {
  io("one_host", v.one_host, kOptional);
  io("most_hosts", v.most_hosts, within(0, kMaxHosts).optional());
  io("hosts", v.hosts, kName.at_most(kMaxHosts).optional());
}

template <class Io, Of<Join> T>
void each_field(Io& io, T& v) {
  std::vector<WayToSuspend> suspend;
  if (v.suspends_to_file) suspend.push_back(WayToSuspend::kToFile);
  if (v.suspends_in_memory) suspend.push_back(WayToSuspend::kInMemory);
  io.note("command", "join");
  io("protocol", v.protocol, within(1, UINT32_MAX));
  io("job", v.job, kName.optional());
  io("run", v.run, kName);
  io("directory", v.directory, kText);
  io("pid", v.pid, within(1, INT32_MAX));
  io("min", v.min, within(1, kMaxLeasedSlots));
  io("max", v.max, within(1, kMaxLeasedSlots));
  io("start", v.start, within(1, kMaxLeasedSlots).optional());
  io("lease", v.lease, within(0, kMaxCount));
  io("holds", v.holds, kHosts);
  io("samples_total", v.samples_total, within(0, kMaxCount).optional());
  io("suspend", suspend, kOptional.at_most(std::size(kWaysToSuspend)));
  io("moves", v.moves, kOptional);
  io("wishes", v.demand, kOptional);
  io("priority", v.priority, kPriority.optional());
  io("deadline_s", v.deadline_s, within(1, kMaxDeadline_s).optional());
  if constexpr (Io::kReads) {
    for (const auto way : suspend) (way == WayToSuspend::kToFile ? v.suspends_to_file : v.suspends_in_memory) = true;
  }
}

static void check(Reader& from, Join& join) {
  if (join.protocol != kLeaseProtocol) {
    from.wrong("protocol", std::to_string(kLeaseProtocol) + ", which is spoken here; both sides need one version");
  }
  if (!join.directory.starts_with('/')) from.wrong("directory", "an absolute path");
  if (join.max < join.min) from.wrong("max", "at least min, " + std::to_string(join.min));
  if (!from.has("start")) join.start = join.min;
  if (join.start < join.min || join.start > join.max) from.wrong("start", "from min to max");
  check_slots(from, "holds", join.holds);
}

template <class Io, Of<Rate> T>
void each_field(Io& io, T& v) {
  io("workers", v.workers, within(1, kMaxLeasedSlots));
  io("hosts", v.hosts, within(1, kMaxLeasedSlots));
  io("samples_per_s", v.samples_per_s, within_real(0, kMostRate));
  io("views", v.views, within(1, UINT32_MAX).optional());
}

template <class Io, Of<GoodputRate> T>
void each_field(Io& io, T& v) {
  io("workers", v.workers, within(1, kMaxLeasedSlots));
  io("rate", v.rate, within_real(kLeastRate, kMostRate));
}

template <class Io, Of<Report> T>
void each_field(Io& io, T& v) {
  io("lease", v.lease, within(0, kMaxCount));
  io("holds", v.holds, kHosts);
  io("phase", v.phase);
  io("workers", v.workers, within(0, kMaxLeasedSlots));
  io("step", v.step, within(0, kMaxCount));
  io("samples", v.samples, within(0, kMaxCount));
  io("samples_total", v.samples_total, within(0, kMaxCount).optional());
  if (Io::kReads || v.expected_samples > 0) {
    io("expected_samples", v.expected_samples, within(0, kMaxCount).optional());
    io("expected_error", v.expected_error, within(0, kMaxCount).optional());
  }
  io("goodput", v.goodput, kUnlessZero.at_most(kMaxRates));
  io("rates", v.rates, kOptional.at_most(kMaxRates));
  io("packed_rates", v.packed_rates, kOptional.at_most(kMaxRates));
  io("memory_bytes", v.memory_bytes, within(0, kMaxCount).optional());
  io("wants", v.wants, within(0, kMaxLeasedSlots).optional());
  io("lost_hosts", v.lost_hosts, kName.at_most(kMaxHosts).optional());
}

static void check(Reader& from, Report& report) {
  check_slots(from, "holds", report.holds);
  const auto falls = [](const GoodputRate& one, const GoodputRate& next) { return one.workers >= next.workers; };
  const auto& goodput = report.goodput;
  if (std::adjacent_find(goodput.begin(), goodput.end(), falls) != goodput.end()) {
    from.wrong("goodput", "by rising workers");
  }
}

template <class Io, Of<Ended> T>
void each_field(Io& io, T& v) {
  io("status", v.status);
}

template <class Io, Of<Joined> T>
void each_field(Io& io, T& v) {
  io("job", v.job, kName);
}

template <class Io, Of<Refused> T>
void each_field(Io& io, T& v) {
  io("text", v.text, kText);
}

template <class Io, Of<Lease> T>
void each_field(Io& io, T& v) {
  io("version", v.version, within(1, kMaxCount));
  io("slots", v.slots, kHosts);
  io("hold", v.hold, kUnlessZero);
  io("moves", v.moves, kUnlessZero);
  io("reason", v.reason, kText);
  io("beside", v.beside, kName.unless_zero());
}

static void check(Reader& from, Lease& lease) {
  check_slots(from, "slots", lease.slots);
}

template <class Io, Of<QueuePlace> T>
void each_field(Io& io, T& v) {
  io("place", v.place, within(1, UINT32_MAX));
  io("of", v.of, within(1, UINT32_MAX));
  io("why", v.why, kText);
}

static void check(Reader& from, QueuePlace& queue) {
  if (queue.of < queue.place) from.wrong("of", "at least place, " + std::to_string(queue.place));
}

template <class Io, Of<End> T>
void each_field(Io& io, T& v) {
  io("why", v.why, kText);
}

namespace {

// --- A message on its line: the first and the last word of a connection have fields of their own, the others one with
// their name.

json line_of(const Join& join) {
  return json_fields::json_of(join);
}
json line_of(const Joined& joined) {
  json line = json_fields::json_of(joined);
  line["ok"] = true;
  return line;
}
json line_of(const Refused& refused) {
  json line = json_fields::json_of(refused);
  line["ok"] = false;
  return line;
}
json line_of(const Report& report) {
  return {{"report", json_fields::json_of(report)}};
}
json line_of(const Ended& ended) {
  return {{"ended", json_fields::json_of(ended)}};
}
json line_of(const Lease& lease) {
  return {{"lease", json_fields::json_of(lease)}};
}
json line_of(const QueuePlace& queue) {
  return {{"queue", json_fields::json_of(queue)}};
}
json line_of(const End& end) {
  return {{"end", json_fields::json_of(end)}};
}

template <class Message, class Variant>
void read_whole(Reader& reader, Variant& message) {
  reader.fields(message.template emplace<Message>());
}
template <class Message, class Variant>
void read_within(Reader& reader, const char* name, Variant& message) {
  reader.object(name, [&](Reader& about) { read_whole<Message>(about, message); });
}

void read_message(Reader& reader, const json& value, FromRun& message) {
  if (is_join(value)) return read_whole<Join>(reader, message);
  if (value.contains("report")) return read_within<Report>(reader, "report", message);
  if (value.contains("ended")) return read_within<Ended>(reader, "ended", message);
  reader.unknown("join, report or ended");
}

void read_message(Reader& reader, const json& value, FromCluster& message) {
  if (value.contains("ok")) {
    bool ok = false;
    reader("ok", ok);
    return ok ? read_whole<Joined>(reader, message) : read_whole<Refused>(reader, message);
  }
  if (value.contains("lease")) return read_within<Lease>(reader, "lease", message);
  if (value.contains("queue")) return read_within<QueuePlace>(reader, "queue", message);
  if (value.contains("end")) return read_within<End>(reader, "end", message);
  reader.unknown("an answer, lease, queue or end");
}

template <class Message>
Result<Message> message_in(const json& value) {
  if (!value.is_object()) return Error{ErrorCode::kInvalid, "a message must be one JSON object on a line"};
  std::string problem;
  Reader reader(value, "", problem);
  Message message;
  read_message(reader, value, message);
  if (!problem.empty()) return Error{ErrorCode::kInvalid, problem};
  return message;
}

template <class Message>
Result<Message> parsed(std::string_view line) {
  if (line.size() > kMaxLineBytes) return Error{ErrorCode::kInvalid, "the line is too long"};
  return message_in<Message>(parse_json(line, kMaxMessageDepth));
}

}  // namespace

std::string to_line(const FromRun& message) {
  return std::visit([](const auto& m) { return json_text(line_of(m)); }, message);
}

std::string to_line(const FromCluster& message) {
  return std::visit([](const auto& m) { return json_text(line_of(m)); }, message);
}

Result<FromRun> from_run(std::string_view line) {
  return parsed<FromRun>(line);
}

Result<FromRun> run_message(const json& message) {
  return message_in<FromRun>(message);
}

bool is_join(const json& message) {
  return message.is_object() && message.contains("command") && message["command"] == "join";
}

Result<FromCluster> from_cluster(std::string_view line) {
  return parsed<FromCluster>(line);
}

const char* name_of(JobPhase phase) {
  return kPhaseNames[static_cast<std::size_t>(phase)].data();
}

std::uint64_t count(const std::vector<HostSlots>& slots) {
  std::uint64_t sum = 0;
  for (const HostSlots& host : slots) sum += host.slots.size();
  return sum;
}

}  // namespace elastictrain::cluster
