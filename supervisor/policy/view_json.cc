#include "supervisor/policy/view_json.h"

#include <algorithm>
#include <utility>

#include "supervisor/protocol/json_fields.h"
#include "supervisor/protocol/json_text.h"

namespace elastictrain::policy {

void shorten(std::string& text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return;
  while (max_bytes > 0 && (static_cast<unsigned char>(text[max_bytes]) & 0xc0) == 0x80) --max_bytes;
  text.resize(max_bytes);
  text += "...";
}

std::string one_line(std::string text) {
  shorten(text, kMaxReasonBytes);
  std::replace_if(
      text.begin(), text.end(), [](unsigned char byte) { return byte < 0x20 || byte == 0x7f; }, ' ');
  return text;
}

}  // namespace elastictrain::policy

namespace elastictrain::heuristics {

inline constexpr std::string_view kAtLimitNames[] = {"stop", "split"};
using Numbers = std::vector<std::pair<std::string, double>>;

}  // namespace elastictrain::heuristics

namespace elastictrain::json_fields {

template <>
struct Codec<heuristics::AtLimit> : NameCodec<heuristics::AtLimit, heuristics::kAtLimitNames> {};

// Numbers under names of their own.
template <>
struct Codec<heuristics::Numbers> {
  static std::string wanted() { return "an object of numbers"; }
  template <class Json>
  static Json write(const heuristics::Numbers& numbers) {
    Json object = Json::object();
    for (const auto& [name, value] : numbers) object[name] = value;
    return object;
  }
  static bool read(const nlohmann::json& found, heuristics::Numbers& numbers) {
    if (!found.is_object()) return false;
    for (const auto& [name, value] : found.items()) {
      if (!value.is_number()) return false;
      numbers.emplace_back(name, value.get<double>());
    }
    return true;
  }
};

}  // namespace elastictrain::json_fields

namespace elastictrain::heuristics {

using json_fields::Of;

template <class Io, Of<Interval> T>
void each_field(Io& io, T& v) {
  io("begin_s", v.begin_s);
  io("end_s", v.end_s);
  io("workers", v.workers);
  io("steps", v.steps);
  io("samples", v.samples);
  io("global_batch", v.global_batch);
  io("warm_up", v.warm_up);
}

template <class Io, Of<WorkerView> T>
void each_field(Io& io, T& v) {
  io("id", v.id);
  io("rank", v.rank);
  io("host", v.host);
  io("share", v.share);
  io("steps", v.steps);
  for (const WorkerMean& mean : kWorkerMeans) io(mean.name, v.*mean.value);
}

template <class Io, Of<GradientNorms> T>
void each_field(Io& io, T& v) {
  io("count", v.count);
  io("local_square", v.local_square);
  io("global_square", v.global_square);
  io("local_batch", v.local_batch);
  io("global_batch", v.global_batch);
  io("workers", v.workers);
}

template <class Io, Of<HostView> T>
void each_field(Io& io, T& v) {
  io("name", v.name);
  io("host_class", v.host_class);
  io("slots", v.slots);
  io("free_slots", v.free_slots);
  io("price_per_worker_hour", v.price_per_worker_hour);
  io("leaving", v.leaving);
}

template <class Io, Of<BatchRule> T>
void each_field(Io& io, T& v) {
  io("per_worker", v.per_worker);
  io("max_global", v.max_global);
  io("at_limit", v.at_limit);
  io("max_share", v.max_share);
}

template <class Io, Of<UtilityPoint> T>
void each_field(Io& io, T& v) {
  io("seconds", v.seconds);
  io("value", v.value);
}

template <class Io, Of<ExpectedLength> T>
void each_field(Io& io, T& v) {
  io("samples", v.samples);
  io("error", v.error);
}

template <class Io, Of<JobView> T>
void each_field(Io& io, T& v) {
  io("name", v.name);
  io("workers", v.workers);
  io("target", v.target);
  io("min_workers", v.min_workers);
  io("max_workers", v.max_workers);
  io("held", v.held);
  io("reachable", v.reachable);
  io("start_s", v.start_s);
  io("spares", v.spares);
  io("changing", v.changing);
  io("samples_done", v.samples_done);
  io("samples_total", v.samples_total);
  io("steps_done", v.steps_done);
  io("loss", v.loss);
  io("has_loss", v.has_loss);
  io("expected_length", v.expected_length);
  io("no_expected_length", v.no_expected_length);
  io("batch", v.batch);
  io("global_batch", v.global_batch);
  io("base_batch", v.base_batch);
  io("learning_rate_factor", v.learning_rate_factor);
  io("topology", v.topology);
  io("synchronization", v.synchronization);
  io("intervals", v.intervals);
  io("norms", v.norms);
  io("members", v.members);
  io("worker_seconds", v.worker_seconds);
  io("cost", v.cost);
  io("utility", v.utility);
}

template <class Io, Of<ClusterView> T>
void each_field(Io& io, T& v) {
  io("now_s", v.now_s);
  io("hosts", v.hosts);
  io("jobs", v.jobs);
}

template <class Io, Of<Replacement> T>
void each_field(Io& io, T& v) {
  io("worker", v.worker);
  io("reason", v.reason);
  io("other_host", v.other_host);
}

template <class Io, Of<WorkerSpeed> T>
void each_field(Io& io, T& v) {
  io("worker", v.worker);
  io("speed", v.speed);
}

template <class Io, Of<Reason> T>
void each_field(Io& io, T& v) {
  io("code", v.code);
  io("text", v.text);
  io("numbers", v.numbers);
}

template <class Io, Of<GoodputAt> T>
void each_field(Io& io, T& v) {
  io("workers", v.workers);
  io("rate", v.rate);
}

template <class Io, Of<JobDecision> T>
void each_field(Io& io, T& v) {
  io("workers", v.workers);
  io("replacements", v.replacements);
  io("speeds", v.speeds);
  io("per_worker_batch", v.per_worker_batch);
  io("learning_rate_factor", v.learning_rate_factor);
  io("topology", v.topology);
  io("synchronization", v.synchronization);
  io("goodput", v.goodput);
  io("reason", v.reason);
}

template <class Io, Of<Decision> T>
void each_field(Io& io, T& v) {
  io("jobs", v.jobs);
}

}  // namespace elastictrain::heuristics

namespace elastictrain::policy {
namespace {

// What is not known or not decided is left out, and what is left out keeps its default.
constexpr json_fields::Rule kUsual = json_fields::kUnlessEmpty;

template <class T>
Result<T> decode(std::string_view text, const char* what) {
  const nlohmann::json given = parse_json(text);
  if (given.is_discarded()) return Error{ErrorCode::kInvalid, std::string(what) + " is not JSON"};
  if (!given.is_object()) return Error{ErrorCode::kInvalid, std::string(what) + " must be an object"};
  T value;
  std::string problem;
  json_fields::Reader(given, "", problem, kUsual).fields(value);
  if (!problem.empty()) return Error{ErrorCode::kInvalid, std::string(what) + ": " + problem};
  return value;
}

}  // namespace

// Programs may send bytes that are not UTF-8; they are replaced.
std::string to_json(const heuristics::ClusterView& view) {
  return json_text(json_fields::json_of(view, kUsual));
}

std::string to_json(const heuristics::Decision& decision) {
  return json_text(json_fields::json_of(decision, kUsual));
}

Result<heuristics::ClusterView> view_from_json(std::string_view text) {
  return decode<heuristics::ClusterView>(text, "the view");
}

Result<heuristics::Decision> decision_from_json(std::string_view text) {
  return decode<heuristics::Decision>(text, "the decision");
}

}  // namespace elastictrain::policy
