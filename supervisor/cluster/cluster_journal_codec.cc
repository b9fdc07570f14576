// The records of a cluster's journal as JSON and back.
#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "supervisor/cluster/cluster_journal.h"
#include "supervisor/cluster/job_spec_fields.h"
#include "supervisor/cluster/lease_protocol.h"
#include "supervisor/protocol/json_text.h"

namespace elastictrain::cluster_core {

inline constexpr std::string_view kHelperWords[] = {"asked", "withdrawn", "failed", "came", "left", "lost", "returned"};

}  // namespace elastictrain::cluster_core

namespace elastictrain::json_fields {

template <>
struct Codec<cluster_core::HelpersChanged::What>
    : NameCodec<cluster_core::HelpersChanged::What, cluster_core::kHelperWords> {};

}  // namespace elastictrain::json_fields

namespace elastictrain::cluster_core {

using json_fields::kOptional;
using json_fields::kUnlessZero;
using json_fields::Of;
using json_fields::within;

// What a later version writes for another way is read as the last argument.
template <std::size_t N>
static std::size_t place_of(const std::string& name, const std::string_view (&names)[N], std::size_t otherwise) {
  const auto found = std::find(std::begin(names), std::end(names), name);
  return found == std::end(names) ? otherwise : static_cast<std::size_t>(found - std::begin(names));
}

static constexpr std::string_view kOrderNames[] = {"cancel", "pause", "resume", "priority"};
static constexpr std::string_view kOutcomes[] = {"done", "superseded", "taken_back", "kept", "undone"};

// The field of an enumeration of which a later version may know more.
template <class Io, class Enum, std::size_t N>
static void name_field(Io& io, const char* field, Enum& value, const std::string_view (&names)[N],
                       std::remove_const_t<Enum> otherwise) {
  std::string name(names[static_cast<std::size_t>(value)]);
  io(field, name);
  if constexpr (Io::kReads) value = static_cast<Enum>(place_of(name, names, static_cast<std::size_t>(otherwise)));
}

template <class Io, Of<HostLine> T>
void each_field(Io& io, T& v) {
  io("host", v.name);
  io("slots", v.slots, within(0, cluster::kMaxSlotsOfHost));
  io("job", v.job, kUnlessZero);
}

template <class Io, Of<RateSeen> T>
void each_field(Io& io, T& v) {
  io("workers", v.workers);
  io("samples_per_s", v.samples_per_s);
  io("views", v.views);
  if (Io::kReads || v.hosts > 1) io("hosts", v.hosts, kOptional);
}

namespace record {

template <class Io, Of<Rules> T>
void each_field(Io& io, T& v) {
  io("slice_s", v.slice_s);
  io("decide_after_s", v.decide_after_s);
  io("recall_timeout_s", v.recall_timeout_s);
  io("suspended_per_slot", v.suspended_per_slot);
  io("packing", v.packing);
  io("estimated_lengths", v.estimated_lengths);
  io("migration", v.migration);
  io("outside", v.outside);
  io("seed", v.seed);
}

template <class Io, Of<Began> T>
void each_field(Io& io, T& v) {
  io("version", v.version);
  io("policy", v.policy);
  io("rules", v.rules, kUnlessZero);
}

template <class Io, Of<Hosts> T>
void each_field(Io& io, T& v) {
  io("hosts", v.hosts);
}

template <class Io, Of<Helpers> T>
void each_field(Io& io, T& v) {
  io("what", v.change.what);
  io("slots", v.change.slots);
  io("text", v.change.text);
  io("needed", v.needed);
  io("why", v.why);
  io("helpers", v.change.helpers);
}

template <class Io, Of<Submitted> T>
void each_field(Io& io, T& v) {
  io("job", v.job);
  io("user", v.owner.name);
  io("uid", v.owner.uid);
  io("of_cluster", v.owner.of_cluster);
  io("unix_s", v.unix_s);
  each_field(io, v.spec);
}

template <class Io, Of<Share> T>
void each_field(Io& io, T& v) {
  io("job", v.job);
  io("before", v.before);
  io("after", v.after);
  io("why", v.why);
  io("beside", v.beside, kUnlessZero);
}

template <class Io, Of<Decided> T>
void each_field(Io& io, T& v) {
  io("trigger", v.trigger);
  io("policy", v.policy);
  io("slots", v.slots);
  io("jobs", v.jobs);
  io("waiting", v.waiting);
  io("shares", v.shares);
}

template <class Io, Of<PolicyAsked> T>
void each_field(Io& io, T& v) {
  io("priority", v.priority);
  io.text_or_json("view", v.view);
  io.text_or_json("answer", v.answer);
  io("problem", v.problem, kUnlessZero);
}

template <class Io, Of<Leased> T>
void each_field(Io& io, T& v) {
  io("job", v.job);
  io("version", v.version);
  io.slots("slots", v.slots);
  io("reason", v.reason);
  io("hold", v.hold, kUnlessZero);
  io("beside", v.beside, kUnlessZero);
  io("moves", v.moves, kUnlessZero);
}

template <class Io, Of<Moving> T>
void each_field(Io& io, T& v) {
  io("job", v.job);
  io.slots("from", v.from);
  io.slots("to", v.to);
  io("why", v.why);
  if (Io::kReads || !v.kept.empty()) io.slots("kept", v.kept, kOptional);
  io("undoes", v.undoes, kUnlessZero);
}

template <class Io, Of<MoveEnded> T>
void each_field(Io& io, T& v) {
  io("job", v.job);
  name_field(io, "outcome", v.outcome, kOutcomes, MoveOutcome::kSuperseded);
  io("why", v.why);
}

template <class Io, class T>
requires Of<T, Stood> || Of<T, Returned> || Of<T, Overdue>
void each_field(Io& io, T& v) {
  io("job", v.job);
  io.slots("slots", v.slots);
}

template <class Io, Of<Started> T>
void each_field(Io& io, T& v) {
  io("job", v.job);
  io("resume", v.resume);
}

template <class Io, Of<HasJoined> T>
void each_field(Io& io, T& v) {
  io("job", v.job);
  io("directory", v.directory);
  io("pid", v.pid);
  io("suspends", v.suspends);
  io("lease", v.lease);
  io.slots("holds", v.holds);
  io("process", v.process_mark, kOptional);
}

template <class Io, Of<Lost> T>
void each_field(Io& io, T& v) {
  io("job", v.job);
}

template <class Io, Of<Ordered> T>
void each_field(Io& io, T& v) {
  io("job", v.job);
  name_field(io, "order", v.order, kOrderNames, Order::kCancel);
  if (Io::kReads || v.order == Order::kPriority) io("priority", v.priority, kOptional);
  io("by", v.by);
}

template <class Io, Of<Left> T>
void each_field(Io& io, T& v) {
  io("job", v.job);
  io("status", v.status);
  io("why", v.why);
  io("resume", v.resume, kOptional);
}

template <class Io, Of<HasEnded> T>
void each_field(Io& io, T& v) {
  io("job", v.job);
  io("status", v.status);
  io("why", v.why);
  io("samples", v.samples);
  io("slot_s", v.slot_s);
  io("rates", v.rates);
}

template <class Io, Of<Learned> T>
void each_field(Io& io, T& v) {
  io("job", v.job);
  if (Io::kReads || v.start_s > 0) {
    io("start_s", v.start_s, kOptional);
    io("workers", v.workers, kOptional);
  }
  io("samples_total", v.samples_total, kUnlessZero);
  if (Io::kReads || v.expected_samples > 0) {
    io("expected_samples", v.expected_samples, kOptional);
    io("expected_error", v.expected_error, kOptional);
  }
  io("rates", v.rates, kUnlessZero);
}

}  // namespace record
}  // namespace elastictrain::cluster_core

namespace elastictrain::cluster {
namespace {

using Json = nlohmann::ordered_json;
using Hosts = std::vector<cluster_core::HostLine>;
namespace record = cluster_core::record;

constexpr int kMaxPolicyDepth = 10;  // of what a program says, which need not make sense

// The events, in the order of cluster_core::Record.
constexpr const char* kEvents[] = {"cluster_begins", "hosts",      "helpers",      "submitted", "decided",
                                   "leased",         "stands",     "returned",     "started",   "joined",
                                   "lost",           "ordered",    "overdue",      "left",      "ended",
                                   "moving",         "move_ended", "policy_asked", "learned"};
static_assert(std::size(kEvents) == std::variant_size_v<cluster_core::Record>);

// Slots have the names of their hosts, and what a policy said is kept as it is.
class RecordWriter : public json_fields::Writer<Json> {
 public:
  RecordWriter(Json& line, const Hosts& hosts) : Writer(line), line_(line), hosts_(hosts) {}

  void slots(const char* name, const cluster_core::Slots& slots, const json_fields::Rule& = {}) {
    Json& list = line_[name] = Json::array();
    for (const auto slot : slots) {
      const std::string& host = hosts_[slot.host].name;
      if (list.empty() || list.back()["host"] != host) list.push_back({{"host", host}, {"slots", Json::array()}});
      list.back()["slots"].push_back(slot.number);
    }
  }
  // What is no JSON stays a text.
  void text_or_json(const char* name, const std::string& text) {
    if (text.empty()) return;
    Json value = parse_ordered_json(text, kMaxPolicyDepth);
    line_[name] = value.is_discarded() ? Json(text) : std::move(value);
  }

 private:
  Json& line_;
  const Hosts& hosts_;
};

struct SlotsOfHost {
  std::string host;
  std::vector<std::uint32_t> slots;
};
template <class Io, json_fields::Of<SlotsOfHost> T>
void each_field(Io& io, T& v) {
  io("host", v.host);
  io("slots", v.slots, json_fields::within(0, kMaxSlotsOfHost - 1));  // memory is taken for as many as a number says
}

class RecordReader : public json_fields::Reader {
 public:
  RecordReader(const nlohmann::json& line, const Hosts& hosts, std::string& problem)
      : Reader(line, "", problem), line_(line), hosts_(hosts) {}

  void slots(const char* name, cluster_core::Slots& slots, const json_fields::Rule& rule = {}) {
    std::vector<SlotsOfHost> list;
    (*this)(name, list, rule);
    for (const SlotsOfHost& one : list) {
      const auto host = std::find_if(hosts_.begin(), hosts_.end(), [&](const auto& h) { return h.name == one.host; });
      if (host == hosts_.end()) return wrong(name, "on hosts that an earlier line has");
      for (const auto number : one.slots) slots.push_back({static_cast<std::uint32_t>(host - hosts_.begin()), number});
    }
    std::sort(slots.begin(), slots.end());
    slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
  }
  void text_or_json(const char* name, std::string& text) {
    const auto found = line_.find(name);
    if (found != line_.end()) text = found->is_string() ? found->get<std::string>() : json_text(*found);
  }

 private:
  const nlohmann::json& line_;
  const Hosts& hosts_;
};

template <std::size_t Kind = 0>
cluster_core::Record empty_record(std::size_t kind) {
  if constexpr (Kind + 1 < std::variant_size_v<cluster_core::Record>) {
    if (kind != Kind) return empty_record<Kind + 1>(kind);
  }
  return cluster_core::Record(std::in_place_index<Kind>);
}

// The number of a host is its place in the list, for as long as there is a journal.
bool extends(const Hosts& list, const Hosts& before) {
  const auto same = [](const cluster_core::HostLine& one, const cluster_core::HostLine& other) {
    return one.name == other.name;
  };
  return list.size() >= before.size() && std::equal(before.begin(), before.end(), list.begin(), same);
}

}  // namespace

std::string journal_line(const cluster_core::Record& record, const std::vector<cluster_core::HostLine>& hosts,
                         std::uint64_t sequence, double unix_s, double up_s) {
  Json out;
  RecordWriter io(out, hosts);
  io("seq", sequence);
  io("t", unix_s);
  io("up", up_s);
  io.note("event", kEvents[record.index()]);
  std::visit([&](const auto& one) { each_field(io, one); }, record);
  return json_text(out);
}

std::optional<JournalLine> read_journal_line(const std::string& line,
                                             const std::vector<cluster_core::HostLine>& hosts) {
  const nlohmann::json in = parse_json(line);
  if (!in.is_object()) return std::nullopt;
  std::string problem, event;
  RecordReader io(in, hosts, problem);
  io("event", event);
  const auto known = std::find(std::begin(kEvents), std::end(kEvents), event);
  if (known == std::end(kEvents)) return std::nullopt;
  JournalLine read{empty_record(static_cast<std::size_t>(known - std::begin(kEvents)))};
  io("seq", read.sequence);
  io("up", read.up_s);
  std::visit([&](auto& one) { each_field(io, one); }, read.record);
  const auto* const list = std::get_if<record::Hosts>(&read.record);
  if (!problem.empty() || (list != nullptr && !extends(list->hosts, hosts))) return std::nullopt;
  return read;
}

std::vector<std::string> event_names() {
  return {std::begin(kEvents), std::end(kEvents)};
}

}  // namespace elastictrain::cluster
