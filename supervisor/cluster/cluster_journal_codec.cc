// The records of a cluster's journal as JSON and back.
#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "supervisor/cluster/cluster_journal.h"
#include "supervisor/cluster/lease_protocol.h"
#include "supervisor/protocol/json_text.h"

namespace elastictrain::cluster {
namespace {

using Record = nlohmann::ordered_json;
using Hosts = std::vector<cluster_core::HostLine>;
namespace record = cluster_core::record;

using What = cluster_core::HelpersChanged::What;
constexpr std::array<std::pair<What, const char*>, 7> kHelperWords = {{{What::kAsked, "asked"},
                                                                       {What::kWithdrawn, "withdrawn"},
                                                                       {What::kFailed, "failed"},
                                                                       {What::kCame, "came"},
                                                                       {What::kLeft, "left"},
                                                                       {What::kLost, "lost"},
                                                                       {What::kReturned, "returned"}}};

const char* order_name(cluster_core::Order order) {
  switch (order) {
    case cluster_core::Order::kCancel:
      return "cancel";
    case cluster_core::Order::kPause:
      return "pause";
    case cluster_core::Order::kResume:
      return "resume";
    case cluster_core::Order::kPriority:
      return "priority";
  }
  return "";
}

cluster_core::Order order_named(const std::string& name) {
  for (const auto order : {cluster_core::Order::kPause, cluster_core::Order::kResume, cluster_core::Order::kPriority}) {
    if (name == order_name(order)) return order;
  }
  return cluster_core::Order::kCancel;
}

constexpr const char* kOutcomes[] = {"done", "superseded", "taken_back", "kept", "undone"};

record::MoveOutcome outcome_named(const std::string& name) {
  const auto found = std::find(std::begin(kOutcomes), std::end(kOutcomes), name);
  return found == std::end(kOutcomes) ? record::MoveOutcome::kSuperseded
                                      : static_cast<record::MoveOutcome>(found - std::begin(kOutcomes));
}

// --- To JSON

Record hosts_json(const Hosts& hosts) {
  Record list = Record::array();
  for (const auto& host : hosts) {
    Record& one = list.emplace_back(Record{{"host", host.name}, {"slots", host.slots}});
    if (!host.job.empty()) one["job"] = host.job;
  }
  return list;
}

Record slots_json(const cluster_core::Slots& slots, const Hosts& hosts) {
  Record list = Record::array();
  for (const auto slot : slots) {
    const std::string& name = hosts[slot.host].name;
    if (list.empty() || list.back()["host"] != name) list.push_back({{"host", name}, {"slots", Record::array()}});
    list.back()["slots"].push_back(slot.number);
  }
  return list;
}

Record rules_json(const record::Rules& rules) {
  return {{"slice_s", rules.slice_s},
          {"decide_after_s", rules.decide_after_s},
          {"recall_timeout_s", rules.recall_timeout_s},
          {"suspended_per_slot", rules.suspended_per_slot},
          {"packing", rules.packing},
          {"estimated_lengths", rules.estimated_lengths},
          {"migration", rules.migration},
          {"outside", rules.outside},
          {"seed", rules.seed}};
}

Record rates_json(const std::vector<cluster_core::RateSeen>& rates) {
  Record list = Record::array();
  for (const auto& rate : rates) {
    Record& one = list.emplace_back(
        Record{{"workers", rate.workers}, {"samples_per_s", rate.samples_per_s}, {"views", rate.views}});
    if (rate.hosts > 1) one["hosts"] = rate.hosts;
  }
  return list;
}

constexpr int kMaxPolicyDepth = 10;  // of what a program says, which need not make sense

// What is no JSON stays a text.
Record text_or_json(const std::string& text) {
  Record value = parse_ordered_json(text, kMaxPolicyDepth);
  return value.is_discarded() ? Record(text) : value;
}

struct Encode {
  Record& out;
  const Hosts& hosts;

  void event(const char* name) const { out["event"] = name; }
  void event(const char* name, cluster_core::JobId job) const {
    event(name);
    out["job"] = job;
  }

  void operator()(const record::Began& one) const {
    event("cluster_begins");
    out["version"] = one.version;
    out["policy"] = one.policy;
    if (one.rules) out["rules"] = rules_json(*one.rules);
  }
  void operator()(const record::Hosts& one) const {
    event("hosts");
    out["hosts"] = hosts_json(one.hosts);
  }
  void operator()(const record::Helpers& one) const {
    event("helpers");
    const auto is_it = [&](const auto& word) { return word.first == one.change.what; };
    out["what"] = std::find_if(kHelperWords.begin(), kHelperWords.end(), is_it)->second;
    out["slots"] = one.change.slots;
    out["text"] = one.change.text;
    out["needed"] = one.needed;
    out["why"] = one.why;
    out["helpers"] = hosts_json(one.change.helpers);
  }
  void operator()(const record::Submitted& one) const {
    event("submitted", one.job);
    out["user"] = one.owner.name;
    out["uid"] = one.owner.uid;
    out["of_cluster"] = one.owner.of_cluster;
    out["unix_s"] = one.unix_s;
    const cluster_core::JobSpec& spec = one.spec;
    out["name"] = spec.name;
    out["arguments"] = spec.arguments;
    out["working_directory"] = spec.working_directory;
    out["environment"] = spec.environment;
    out["min"] = spec.min;
    out["max"] = spec.max;
    out["start"] = spec.start;
    out["priority"] = spec.priority;
    if (spec.samples_total) out["samples_total"] = *spec.samples_total;
    if (spec.deadline_s) out["deadline_s"] = *spec.deadline_s;
    out["suspends"] = spec.suspends;
    out["one_host"] = spec.one_host;
    out["most_hosts"] = spec.most_hosts;
    out["hosts"] = spec.hosts;
  }
  void operator()(const record::Decided& one) const {
    event("decided");
    out["trigger"] = one.trigger;
    out["policy"] = one.policy;
    out["slots"] = one.slots;
    out["jobs"] = one.jobs;
    out["waiting"] = one.waiting;
    out["shares"] = Record::array();
    for (const auto& share : one.shares) {
      Record& one_share = out["shares"].emplace_back(
          Record{{"job", share.job}, {"before", share.before}, {"after", share.after}, {"why", share.why}});
      if (share.beside != 0) one_share["beside"] = share.beside;
    }
  }
  void operator()(const record::PolicyAsked& one) const {
    event("policy_asked");
    out["priority"] = one.priority;
    if (!one.view.empty()) out["view"] = text_or_json(one.view);
    if (!one.answer.empty()) out["answer"] = text_or_json(one.answer);
    if (!one.problem.empty()) out["problem"] = one.problem;
  }
  void operator()(const record::Leased& one) const {
    event("leased", one.job);
    out["version"] = one.version;
    out["slots"] = slots_json(one.slots, hosts);
    out["reason"] = one.reason;
    if (one.hold) out["hold"] = true;
    if (one.beside != 0) out["beside"] = one.beside;
    if (one.moves) out["moves"] = true;
  }
  void operator()(const record::Moving& one) const {
    event("moving", one.job);
    out["from"] = slots_json(one.from, hosts);
    out["to"] = slots_json(one.to, hosts);
    out["why"] = one.why;
    if (!one.kept.empty()) out["kept"] = slots_json(one.kept, hosts);
    if (one.undoes) out["undoes"] = true;
  }
  void operator()(const record::MoveEnded& one) const {
    event("move_ended", one.job);
    out["outcome"] = kOutcomes[static_cast<std::size_t>(one.outcome)];
    out["why"] = one.why;
  }
  void operator()(const record::Stood& one) const {
    event("stands", one.job);
    out["slots"] = slots_json(one.slots, hosts);
  }
  void operator()(const record::Returned& one) const {
    event("returned", one.job);
    out["slots"] = slots_json(one.slots, hosts);
  }
  void operator()(const record::Started& one) const {
    event("started", one.job);
    out["resume"] = one.resume;
  }
  void operator()(const record::HasJoined& one) const {
    event("joined", one.job);
    out["directory"] = one.directory;
    out["pid"] = one.pid;
    out["suspends"] = one.suspends;
    out["lease"] = one.lease;
    out["holds"] = slots_json(one.holds, hosts);
    out["process"] = one.process_mark;
  }
  void operator()(const record::Lost& one) const { event("lost", one.job); }
  void operator()(const record::Ordered& one) const {
    event("ordered", one.job);
    out["order"] = order_name(one.order);
    if (one.order == cluster_core::Order::kPriority) out["priority"] = one.priority;
    out["by"] = one.by;
  }
  void operator()(const record::Overdue& one) const {
    event("overdue", one.job);
    out["slots"] = slots_json(one.slots, hosts);
  }
  void operator()(const record::Left& one) const {
    event("left", one.job);
    out["status"] = one.status;
    out["why"] = one.why;
    out["resume"] = one.resume;
  }
  void operator()(const record::HasEnded& one) const {
    event("ended", one.job);
    out["status"] = one.status;
    out["why"] = one.why;
    out["samples"] = one.samples;
    out["slot_s"] = one.slot_s;
    out["rates"] = rates_json(one.rates);
  }
  void operator()(const record::Learned& one) const {
    event("learned", one.job);
    if (one.start_s > 0) {
      out["start_s"] = one.start_s;
      out["workers"] = one.workers;
    }
    if (one.samples_total) out["samples_total"] = *one.samples_total;
    if (one.expected_samples > 0) {
      out["expected_samples"] = one.expected_samples;
      out["expected_error"] = one.expected_error;
    }
    if (!one.rates.empty()) out["rates"] = rates_json(one.rates);
  }
};

template <std::size_t... Kinds>
std::vector<std::string> names_of_all(std::index_sequence<Kinds...>) {
  std::vector<std::string> names;
  const auto add = [&names](const cluster_core::Record& record) {
    Record line;
    std::visit(Encode{line, {}}, record);
    names.push_back(line["event"].get<std::string>());
  };
  (add(cluster_core::Record(std::in_place_index<Kinds>)), ...);
  return names;
}

// --- From JSON. A field of a wrong type throws; read_journal_line() catches it.

struct UnknownHost {};
struct NotWhole {};  // or too large

// The conversion of 1e30 to an integer is undefined.
template <class Number>
Number whole(const nlohmann::json& value) {
  if (!value.is_number_integer()) throw NotWhole();
  return value.get<Number>();
}

// Memory is taken for as many slots as a number says.
std::uint32_t below(std::uint32_t end, const nlohmann::json& value) {
  const auto number = whole<std::uint64_t>(value);
  if (number >= end) throw NotWhole();
  return static_cast<std::uint32_t>(number);
}

cluster_core::Slots slots_from(const nlohmann::json& list, const Hosts& hosts) {
  cluster_core::Slots slots;
  for (const auto& one : list) {
    const auto name = one.at("host").get<std::string>();
    const auto found = std::find_if(hosts.begin(), hosts.end(), [&](const auto& host) { return host.name == name; });
    if (found == hosts.end()) throw UnknownHost();
    const auto host = static_cast<std::uint32_t>(found - hosts.begin());
    for (const auto& number : one.at("slots")) slots.push_back({host, below(kMaxSlotsOfHost, number)});
  }
  std::sort(slots.begin(), slots.end());
  slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
  return slots;
}

record::Submitted submitted_from(const nlohmann::json& in, cluster_core::JobId job) {
  record::Submitted one;
  one.job = job;
  one.owner = {whole<std::uint32_t>(in.at("uid")), in.at("user").get<std::string>(), in.at("of_cluster").get<bool>()};
  one.unix_s = in.at("unix_s").get<double>();
  cluster_core::JobSpec& spec = one.spec;
  spec.name = in.at("name").get<std::string>();
  spec.arguments = in.at("arguments").get<std::vector<std::string>>();
  spec.working_directory = in.at("working_directory").get<std::string>();
  spec.environment = in.at("environment").get<std::vector<std::string>>();
  spec.min = whole<std::uint32_t>(in.at("min"));
  spec.max = whole<std::uint32_t>(in.at("max"));
  spec.start = whole<std::uint32_t>(in.at("start"));
  spec.priority = whole<std::int32_t>(in.at("priority"));
  if (in.contains("samples_total")) spec.samples_total = whole<std::uint64_t>(in.at("samples_total"));
  if (in.contains("deadline_s")) spec.deadline_s = in.at("deadline_s").get<double>();
  spec.suspends = in.at("suspends").get<bool>();
  spec.one_host = in.at("one_host").get<bool>();
  spec.most_hosts = whole<std::uint32_t>(in.at("most_hosts"));
  spec.hosts = in.at("hosts").get<std::vector<std::string>>();
  return one;
}

record::Decided decided_from(const nlohmann::json& in) {
  record::Decided one;
  one.trigger = in.at("trigger").get<std::string>();
  one.policy = in.at("policy").get<std::string>();
  one.slots = whole<std::uint32_t>(in.at("slots"));
  one.jobs = whole<std::uint32_t>(in.at("jobs"));
  one.waiting = whole<std::uint32_t>(in.at("waiting"));
  for (const auto& share : in.at("shares")) {
    one.shares.push_back({whole<cluster_core::JobId>(share.at("job")), whole<std::uint32_t>(share.at("before")),
                          whole<std::uint32_t>(share.at("after")), share.at("why").get<std::string>(),
                          share.value("beside", cluster_core::JobId(0))});
  }
  return one;
}

std::string text_in(const nlohmann::json& in, const char* name) {
  const auto found = in.find(name);
  if (found == in.end()) return "";
  return found->is_string() ? found->get<std::string>() : json_text(*found);
}

record::PolicyAsked asked_from(const nlohmann::json& in) {
  return {whole<std::int32_t>(in.at("priority")), text_in(in, "view"), text_in(in, "answer"),
          in.value("problem", std::string())};
}

Hosts hosts_from(const nlohmann::json& list) {
  Hosts hosts;
  for (const auto& host : list) {
    hosts.push_back({host.at("host").get<std::string>(), below(kMaxSlotsOfHost + 1, host.at("slots")),
                     host.value("job", std::string())});
  }
  return hosts;
}

// The number of a host is its place in the list, for as long as there is a journal.
bool extends(const Hosts& list, const Hosts& before) {
  const auto same = [](const cluster_core::HostLine& one, const cluster_core::HostLine& other) {
    return one.name == other.name;
  };
  return list.size() >= before.size() && std::equal(before.begin(), before.end(), list.begin(), same);
}

std::optional<cluster_core::Record> helpers_from(const nlohmann::json& in) {
  const auto name = in.at("what").get<std::string>();
  const auto word =
      std::find_if(kHelperWords.begin(), kHelperWords.end(), [&](const auto& one) { return name == one.second; });
  if (word == kHelperWords.end()) return std::nullopt;
  return record::Helpers{{word->first, whole<std::uint32_t>(in.at("slots")), in.at("text").get<std::string>(),
                          hosts_from(in.at("helpers"))},
                         whole<std::uint32_t>(in.at("needed")),
                         in.at("why").get<std::string>()};
}

std::vector<cluster_core::RateSeen> rates_from(const nlohmann::json& list) {
  std::vector<cluster_core::RateSeen> rates;
  for (const auto& rate : list) {
    const auto hosts = rate.find("hosts");
    rates.push_back({whole<std::uint32_t>(rate.at("workers")), rate.at("samples_per_s").get<double>(),
                     whole<std::uint32_t>(rate.at("views")), false,
                     hosts == rate.end() ? 1 : whole<std::uint32_t>(*hosts)});
  }
  return rates;
}

template <class Number>
Number whole_or(Number otherwise, const nlohmann::json& in, const char* name) {
  const auto found = in.find(name);
  return found == in.end() ? otherwise : whole<Number>(*found);
}

record::Learned learned_from(const nlohmann::json& in, cluster_core::JobId job) {
  record::Learned one{.job = job};
  one.start_s = in.value("start_s", 0.0);
  one.workers = whole_or(0U, in, "workers");
  if (in.contains("samples_total")) one.samples_total = whole<std::uint64_t>(in.at("samples_total"));
  one.expected_samples = whole_or(std::uint64_t{0}, in, "expected_samples");
  one.expected_error = whole_or(std::uint64_t{0}, in, "expected_error");
  one.rates = rates_from(in.value("rates", nlohmann::json::array()));
  return one;
}

std::optional<record::Rules> rules_from(const nlohmann::json& in) {
  const auto rules = in.find("rules");
  if (rules == in.end()) return std::nullopt;
  return record::Rules{rules->at("slice_s").get<double>(),
                       rules->at("decide_after_s").get<double>(),
                       rules->at("recall_timeout_s").get<double>(),
                       whole<std::uint32_t>(rules->at("suspended_per_slot")),
                       rules->at("packing").get<bool>(),
                       rules->at("estimated_lengths").get<bool>(),
                       rules->at("migration").get<bool>(),
                       rules->at("outside").get<bool>(),
                       whole<std::uint64_t>(rules->at("seed"))};
}

record::HasEnded ended_from(const nlohmann::json& in, cluster_core::JobId job) {
  record::HasEnded one{job,
                       whole<int>(in.at("status")),
                       in.at("why").get<std::string>(),
                       whole<std::uint64_t>(in.at("samples")),
                       in.at("slot_s").get<double>(),
                       rates_from(in.at("rates"))};
  return one;
}

std::optional<cluster_core::Record> record_of_job(const std::string& event, const nlohmann::json& in,
                                                  const Hosts& hosts) {
  const auto job = whole<cluster_core::JobId>(in.at("job"));
  if (event == "submitted") return submitted_from(in, job);
  if (event == "leased") {
    return record::Leased{job,
                          whole<std::uint64_t>(in.at("version")),
                          slots_from(in.at("slots"), hosts),
                          in.at("reason").get<std::string>(),
                          in.value("hold", false),
                          in.value("beside", cluster_core::JobId(0)),
                          in.value("moves", false)};
  }
  if (event == "moving") {
    return record::Moving{job,
                          slots_from(in.at("from"), hosts),
                          slots_from(in.at("to"), hosts),
                          in.at("why").get<std::string>(),
                          slots_from(in.value("kept", nlohmann::json::array()), hosts),
                          in.value("undoes", false)};
  }
  if (event == "move_ended") {
    return record::MoveEnded{job, outcome_named(in.at("outcome").get<std::string>()), in.at("why").get<std::string>()};
  }
  if (event == "stands") return record::Stood{job, slots_from(in.at("slots"), hosts)};
  if (event == "returned") return record::Returned{job, slots_from(in.at("slots"), hosts)};
  if (event == "started") return record::Started{job, in.at("resume").get<bool>()};
  if (event == "joined") {
    return record::HasJoined{job,
                             in.at("directory").get<std::string>(),
                             whole<std::int64_t>(in.at("pid")),
                             in.at("suspends").get<bool>(),
                             whole<std::uint64_t>(in.at("lease")),
                             slots_from(in.at("holds"), hosts),
                             in.value("process", std::string())};
  }
  if (event == "lost") return record::Lost{job};
  if (event == "ordered") {
    return record::Ordered{job, order_named(in.at("order").get<std::string>()), in.value("priority", 0),
                           in.at("by").get<std::string>()};
  }
  if (event == "overdue") return record::Overdue{job, slots_from(in.at("slots"), hosts)};
  if (event == "left") {
    return record::Left{job, whole<int>(in.at("status")), in.at("why").get<std::string>(), in.value("resume", true)};
  }
  if (event == "ended") return ended_from(in, job);
  if (event == "learned") return learned_from(in, job);
  return std::nullopt;
}

std::optional<cluster_core::Record> record_from(const nlohmann::json& in, const Hosts& hosts) {
  const auto event = in.at("event").get<std::string>();
  if (event == "cluster_begins") {
    return record::Began{in.at("version").get<std::string>(), in.at("policy").get<std::string>(), rules_from(in)};
  }
  if (event == "hosts") {
    record::Hosts one{hosts_from(in.at("hosts"))};
    if (extends(one.hosts, hosts)) return one;
    return std::nullopt;
  }
  if (event == "helpers") return helpers_from(in);
  if (event == "decided") return decided_from(in);
  if (event == "policy_asked") return asked_from(in);
  return record_of_job(event, in, hosts);
}

}  // namespace

std::string journal_line(const cluster_core::Record& record, const std::vector<cluster_core::HostLine>& hosts,
                         std::uint64_t sequence, double unix_s, double up_s) {
  Record out;
  out["seq"] = sequence;
  out["t"] = unix_s;
  out["up"] = up_s;
  std::visit(Encode{out, hosts}, record);
  return json_text(out);
}

std::optional<JournalLine> read_journal_line(const std::string& line,
                                             const std::vector<cluster_core::HostLine>& hosts) {
  const nlohmann::json in = parse_json(line);
  if (!in.is_object()) return std::nullopt;
  try {
    auto record = record_from(in, hosts);
    if (!record) return std::nullopt;
    return JournalLine{std::move(*record), whole<std::uint64_t>(in.at("seq")), in.at("up").get<double>()};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  } catch (const UnknownHost&) {
    return std::nullopt;
  } catch (const NotWhole&) {
    return std::nullopt;
  }
}

std::vector<std::string> event_names() {
  return names_of_all(std::make_index_sequence<std::variant_size_v<cluster_core::Record>>());
}

}  // namespace elastictrain::cluster
