#include "supervisor/cluster/lease_protocol.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "supervisor/cluster/line_reader.h"
#include "supervisor/protocol/host_name.h"
#include "supervisor/protocol/json_text.h"

namespace elastictrain::cluster {
namespace {

using nlohmann::json;

constexpr double kLeastRate = 1e-12;
constexpr std::array<std::string_view, 5> kPhaseNames{"waiting", "starting", "training", "suspended", "ending"};

// --- To text

// As the other side accepts it: printable, and not cut in the middle of a character.
std::string cut(std::string text) {
  if (text.size() > kMaxTextBytes) {
    std::size_t end = kMaxTextBytes;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
    text.resize(end);
  }
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return text;
}

template <class T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

json to_json(const std::vector<HostSlots>& list) {
  json array = json::array();
  for (const HostSlots& host : list) {
    json& entry = array.emplace_back(json{{"host", host.host}, {"slots", host.slots}});
    if (host.of > 0) entry["of"] = host.of;
    if (!host.job.empty()) entry["job"] = host.job;
  }
  return array;
}

json to_json(const Join& join) {
  json suspend = json::array();
  if (join.suspends_to_file) suspend.push_back("file");
  if (join.suspends_in_memory) suspend.push_back("host");
  const json demand{
      {"one_host", join.demand.one_host}, {"most_hosts", join.demand.most_hosts}, {"hosts", join.demand.hosts}};
  return {{"command", "join"},
          {"protocol", join.protocol},
          {"job", or_null(join.job)},
          {"run", join.run},
          {"directory", join.directory},
          {"pid", join.pid},
          {"min", join.min},
          {"max", join.max},
          {"start", join.start},
          {"lease", join.lease},
          {"holds", to_json(join.holds)},
          {"samples_total", or_null(join.samples_total)},
          {"suspend", suspend},
          {"moves", join.moves},
          {"wishes", demand},
          {"priority", join.priority},
          {"deadline_s", or_null(join.deadline_s)}};
}

json to_json(const std::vector<Rate>& rates) {
  json list = json::array();
  for (const Rate& rate : rates) {
    list.push_back({{"workers", rate.workers},
                    {"hosts", rate.hosts},
                    {"samples_per_s", rate.samples_per_s},
                    {"views", rate.views}});
  }
  return list;
}

json to_json(const Report& report) {
  json about{{"lease", report.lease},
             {"holds", to_json(report.holds)},
             {"phase", name_of(report.phase)},
             {"workers", report.workers},
             {"step", report.step},
             {"samples", report.samples},
             {"samples_total", or_null(report.samples_total)},
             {"rates", to_json(report.rates)},
             {"packed_rates", to_json(report.packed_rates)},
             {"memory_bytes", report.memory_bytes},
             {"wants", or_null(report.wants)},
             {"lost_hosts", report.lost_hosts}};
  if (report.expected_samples > 0) {
    about["expected_samples"] = report.expected_samples;
    about["expected_error"] = report.expected_error;
  }
  for (const GoodputRate& at : report.goodput) {
    about["goodput"].push_back({{"workers", at.workers}, {"rate", at.rate}});
  }
  return {{"report", about}};
}

json to_json(const Ended& ended) {
  return {{"ended", {{"status", ended.status}}}};
}

json to_json(const Joined& joined) {
  return {{"ok", true}, {"job", joined.job}};
}

json to_json(const Refused& refused) {
  return {{"ok", false}, {"text", cut(refused.text)}};
}

json to_json(const Lease& lease) {
  json about{{"version", lease.version}, {"slots", to_json(lease.slots)}, {"reason", cut(lease.reason)}};
  if (lease.hold) about["hold"] = true;
  if (!lease.beside.empty()) about["beside"] = lease.beside;
  if (lease.moves) about["moves"] = true;
  return {{"lease", about}};
}

json to_json(const QueuePlace& queue) {
  return {{"queue", {{"place", queue.place}, {"of", queue.of}, {"why", cut(queue.why)}}}};
}

json to_json(const End& end) {
  return {{"end", {{"why", cut(end.why)}}}};
}

// --- From text

// They become words of command lines, of other users' too.
std::string read_host_name(LineReader& from, const char* field) {
  std::string name = from.name(field);
  if (from.ok() && !protocol::is_host_name(name)) from.wrong(field, "a name of letters, digits and .-_:%, not first -");
  return name;
}

std::vector<HostSlots> read_slots(LineReader& from, const char* name) {
  std::vector<HostSlots> list;
  std::uint64_t total = 0;
  from.each(name, kMaxHosts, [&](LineReader& entry) {
    HostSlots host;
    host.host = read_host_name(entry, "host");
    host.of = entry.whole("of", 0, kMaxSlotsOfHost, 0);
    if (!entry.is_null("job")) host.job = read_host_name(entry, "job");
    host.slots = entry.numbers("slots", kMaxSlotsOfHost, kMaxSlotsOfHost - 1);
    std::sort(host.slots.begin(), host.slots.end());
    if (std::adjacent_find(host.slots.begin(), host.slots.end()) != host.slots.end()) entry.wrong("slots", "distinct");
    if (host.of > 0 && !host.slots.empty() && host.slots.back() >= host.of) {
      entry.wrong("slots", "below " + std::to_string(host.of) + ", the number of slots of the host");
    }
    total += host.slots.size();
    if (!host.slots.empty()) list.push_back(std::move(host));
  });
  if (total > kMaxLeasedSlots) from.wrong(name, "at most " + std::to_string(kMaxLeasedSlots) + " slots");
  std::vector<std::string_view> hosts;
  for (const HostSlots& host : list) hosts.push_back(host.host);
  std::sort(hosts.begin(), hosts.end());
  if (std::adjacent_find(hosts.begin(), hosts.end()) != hosts.end()) from.wrong(name, "a list that names a host once");
  return list;
}

Join read_join(LineReader& from) {
  Join join;
  join.protocol = from.whole("protocol", 1, UINT32_MAX);
  if (from.ok() && join.protocol != kLeaseProtocol) {
    from.wrong("protocol", std::to_string(kLeaseProtocol) + ", which is spoken here; both sides need one version");
  }
  if (!from.is_null("job")) join.job = from.name("job");
  join.run = from.name("run");
  join.directory = from.text("directory");
  if (from.ok() && !join.directory.starts_with('/')) from.wrong("directory", "an absolute path");
  join.pid = from.whole("pid", 1, INT32_MAX);
  join.min = from.whole("min", 1, kMaxLeasedSlots);
  join.max = from.whole("max", std::max(1u, join.min), kMaxLeasedSlots);
  join.start = from.whole("start", join.min, std::max(join.min, join.max), join.min);
  join.lease = from.number("lease", 0, kMaxCount);
  join.holds = read_slots(from, "holds");
  if (!from.is_null("samples_total")) join.samples_total = from.number("samples_total", 0, kMaxCount);
  for (const std::string& way : from.names("suspend", 2)) {
    if (way != "file" && way != "host") from.wrong("suspend", "a list of \"file\" and \"host\"");
    (way == "file" ? join.suspends_to_file : join.suspends_in_memory) = true;
  }
  join.moves = from.flag("moves");
  from.object("wishes", [&](LineReader& demand) {
    join.demand.one_host = demand.flag("one_host");
    join.demand.most_hosts = demand.whole("most_hosts", 0, kMaxHosts, 0);
    join.demand.hosts = demand.names("hosts", kMaxHosts);
  });
  if (!from.is_null("priority")) {
    join.priority = static_cast<std::int32_t>(from.real("priority", -kMaxPriority, kMaxPriority));
  }
  if (!from.is_null("deadline_s")) join.deadline_s = from.number("deadline_s", 1, kMaxDeadline_s);
  return join;
}

JobPhase read_phase(LineReader& from) {
  const std::string name = from.name("phase");
  const auto found = std::find(kPhaseNames.begin(), kPhaseNames.end(), name);
  if (found != kPhaseNames.end()) return static_cast<JobPhase>(found - kPhaseNames.begin());
  from.wrong("phase", "waiting, starting, training, suspended or ending");
  return JobPhase::kWaiting;
}

std::vector<Rate> read_rates(LineReader& from, const char* name) {
  std::vector<Rate> rates;
  from.each(name, kMaxRates, [&](LineReader& entry) {
    rates.push_back({.workers = entry.whole("workers", 1, kMaxLeasedSlots),
                     .hosts = entry.whole("hosts", 1, kMaxLeasedSlots),
                     .samples_per_s = entry.real("samples_per_s", 0, static_cast<double>(kMaxCount)),
                     .views = entry.whole("views", 1, UINT32_MAX, 1)});
  });
  return rates;
}

std::vector<GoodputRate> read_goodput(LineReader& from) {
  std::vector<GoodputRate> goodput;
  from.each("goodput", kMaxRates, [&](LineReader& entry) {
    const std::uint32_t least = goodput.empty() ? 1 : goodput.back().workers + 1;
    goodput.push_back({.workers = entry.whole("workers", least, kMaxLeasedSlots),
                       .rate = entry.real("rate", kLeastRate, static_cast<double>(kMaxCount))});
  });
  return goodput;
}

Report read_report(LineReader& from) {
  Report report;
  report.lease = from.number("lease", 0, kMaxCount);
  report.holds = read_slots(from, "holds");
  report.phase = read_phase(from);
  report.workers = from.whole("workers", 0, kMaxLeasedSlots);
  report.step = from.number("step", 0, kMaxCount);
  report.samples = from.number("samples", 0, kMaxCount);
  if (!from.is_null("samples_total")) report.samples_total = from.number("samples_total", 0, kMaxCount);
  report.expected_samples = from.number("expected_samples", 0, kMaxCount, 0);
  report.expected_error = from.number("expected_error", 0, kMaxCount, 0);
  report.goodput = read_goodput(from);
  report.rates = read_rates(from, "rates");
  report.packed_rates = read_rates(from, "packed_rates");
  report.memory_bytes = from.number("memory_bytes", 0, kMaxCount, 0);
  if (!from.is_null("wants")) report.wants = from.whole("wants", 0, kMaxLeasedSlots);
  report.lost_hosts = from.names("lost_hosts", kMaxHosts);
  return report;
}

Lease read_lease(LineReader& from) {
  Lease lease;
  lease.version = from.number("version", 1, kMaxCount);
  lease.slots = read_slots(from, "slots");
  lease.hold = from.flag("hold");
  lease.moves = from.flag("moves");
  lease.reason = from.text("reason");
  if (!from.is_null("beside")) lease.beside = from.name("beside");
  return lease;
}

QueuePlace read_queue(LineReader& from) {
  QueuePlace queue;
  queue.place = from.whole("place", 1, UINT32_MAX);
  queue.of = from.whole("of", queue.place, UINT32_MAX);
  queue.why = from.text("why");
  return queue;
}

template <class Message>
Result<Message> message_in(const json& value, Message (*read)(LineReader&, const json&)) {
  if (!value.is_object()) return Error{ErrorCode::kInvalid, "a message must be one JSON object on a line"};
  std::string problem;
  LineReader reader(value, "", problem);
  Message message = read(reader, value);
  if (!problem.empty()) return Error{ErrorCode::kInvalid, problem};
  return message;
}

template <class Message>
Result<Message> parsed(std::string_view line, Message (*read)(LineReader&, const json&)) {
  if (line.size() > kMaxLineBytes) return Error{ErrorCode::kInvalid, "the line is too long"};
  return message_in(parse_json(line, kMaxMessageDepth), read);
}

FromRun read_from_run(LineReader& reader, const json& value) {
  FromRun message;
  if (is_join(value)) {
    message = read_join(reader);
  } else if (value.contains("report")) {
    reader.required("report", [&](LineReader& about) { message = read_report(about); });
  } else if (value.contains("ended")) {
    reader.required("ended", [&](LineReader& about) {
      message = Ended{static_cast<std::uint8_t>(about.whole("status", 0, UINT8_MAX))};
    });
  } else {
    reader.unknown("join, report or ended");
  }
  return message;
}

FromCluster read_from_cluster(LineReader& reader, const json& value) {
  FromCluster message;
  if (value.contains("ok")) {
    if (reader.flag("ok")) {
      message = Joined{reader.name("job")};
    } else {
      message = Refused{reader.text("text")};
    }
  } else if (value.contains("lease")) {
    reader.required("lease", [&](LineReader& about) { message = read_lease(about); });
  } else if (value.contains("queue")) {
    reader.required("queue", [&](LineReader& about) { message = read_queue(about); });
  } else if (value.contains("end")) {
    reader.required("end", [&](LineReader& about) { message = End{about.text("why")}; });
  } else {
    reader.unknown("an answer, lease, queue or end");
  }
  return message;
}

}  // namespace

std::string to_line(const FromRun& message) {
  return std::visit([](const auto& m) { return json_text(to_json(m)); }, message);
}

std::string to_line(const FromCluster& message) {
  return std::visit([](const auto& m) { return json_text(to_json(m)); }, message);
}

Result<FromRun> from_run(std::string_view line) {
  return parsed<FromRun>(line, read_from_run);
}

Result<FromRun> run_message(const json& message) {
  return message_in<FromRun>(message, read_from_run);
}

bool is_join(const json& message) {
  return message.is_object() && message.contains("command") && message["command"] == "join";
}

Result<FromCluster> from_cluster(std::string_view line) {
  return parsed<FromCluster>(line, read_from_cluster);
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
