#include "supervisor/policy/view_json.h"

#include <algorithm>
#include <utility>

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

namespace {

using heuristics::ClusterView;
using heuristics::Decision;
using heuristics::Interval;
using heuristics::JobDecision;
using heuristics::JobView;
using heuristics::Reason;
using nlohmann::json;

template <class T, class Wanted>
concept Of = std::is_same_v<std::remove_const_t<T>, Wanted>;

// One list of members for both directions: `use(name, value)`.
template <class Use, Of<Interval> T>
void each_field(Use use, T& v) {
  use("begin_s", v.begin_s);
  use("end_s", v.end_s);
  use("workers", v.workers);
  use("steps", v.steps);
  use("samples", v.samples);
  use("global_batch", v.global_batch);
  use("warm_up", v.warm_up);
}

template <class Use, Of<heuristics::WorkerView> T>
void each_field(Use use, T& v) {
  use("id", v.id);
  use("rank", v.rank);
  use("host", v.host);
  use("share", v.share);
  use("steps", v.steps);
  for (const heuristics::WorkerMean& mean : heuristics::kWorkerMeans) use(mean.name, v.*mean.value);
}

template <class Use, Of<heuristics::GradientNorms> T>
void each_field(Use use, T& v) {
  use("count", v.count);
  use("local_square", v.local_square);
  use("global_square", v.global_square);
  use("local_batch", v.local_batch);
  use("global_batch", v.global_batch);
  use("workers", v.workers);
}

template <class Use, Of<heuristics::HostView> T>
void each_field(Use use, T& v) {
  use("name", v.name);
  use("host_class", v.host_class);
  use("slots", v.slots);
  use("free_slots", v.free_slots);
  use("price_per_worker_hour", v.price_per_worker_hour);
  use("leaving", v.leaving);
}

template <class Use, Of<heuristics::BatchRule> T>
void each_field(Use use, T& v) {
  use("per_worker", v.per_worker);
  use("max_global", v.max_global);
  use("at_limit", v.at_limit);
  use("max_share", v.max_share);
}

template <class Use, Of<heuristics::UtilityPoint> T>
void each_field(Use use, T& v) {
  use("seconds", v.seconds);
  use("value", v.value);
}

template <class Use, Of<heuristics::ExpectedLength> T>
void each_field(Use use, T& v) {
  use("samples", v.samples);
  use("error", v.error);
}

template <class Use, Of<JobView> T>
void each_field(Use use, T& v) {
  use("name", v.name);
  use("workers", v.workers);
  use("target", v.target);
  use("min_workers", v.min_workers);
  use("max_workers", v.max_workers);
  use("held", v.held);
  use("reachable", v.reachable);
  use("start_s", v.start_s);
  use("spares", v.spares);
  use("changing", v.changing);
  use("samples_done", v.samples_done);
  use("samples_total", v.samples_total);
  use("steps_done", v.steps_done);
  use("loss", v.loss);
  use("has_loss", v.has_loss);
  use("expected_length", v.expected_length);
  use("no_expected_length", v.no_expected_length);
  use("batch", v.batch);
  use("global_batch", v.global_batch);
  use("base_batch", v.base_batch);
  use("learning_rate_factor", v.learning_rate_factor);
  use("topology", v.topology);
  use("synchronization", v.synchronization);
  use("intervals", v.intervals);
  use("norms", v.norms);
  use("members", v.members);
  use("worker_seconds", v.worker_seconds);
  use("cost", v.cost);
  use("utility", v.utility);
}

template <class Use, Of<ClusterView> T>
void each_field(Use use, T& v) {
  use("now_s", v.now_s);
  use("hosts", v.hosts);
  use("jobs", v.jobs);
}

template <class Use, Of<heuristics::Replacement> T>
void each_field(Use use, T& v) {
  use("worker", v.worker);
  use("reason", v.reason);
  use("other_host", v.other_host);
}

template <class Use, Of<heuristics::WorkerSpeed> T>
void each_field(Use use, T& v) {
  use("worker", v.worker);
  use("speed", v.speed);
}

template <class Use, Of<Reason> T>
void each_field(Use use, T& v) {
  use("code", v.code);
  use("text", v.text);
  use("numbers", v.numbers);
}

template <class Use, Of<heuristics::GoodputAt> T>
void each_field(Use use, T& v) {
  use("workers", v.workers);
  use("rate", v.rate);
}

template <class Use, Of<JobDecision> T>
void each_field(Use use, T& v) {
  use("workers", v.workers);
  use("replacements", v.replacements);
  use("speeds", v.speeds);
  use("per_worker_batch", v.per_worker_batch);
  use("learning_rate_factor", v.learning_rate_factor);
  use("topology", v.topology);
  use("synchronization", v.synchronization);
  use("goodput", v.goodput);
  use("reason", v.reason);
}

template <class Use, Of<Decision> T>
void each_field(Use use, T& v) {
  use("jobs", v.jobs);
}

using Numbers = std::vector<std::pair<std::string, double>>;

struct Encode {
  static json of(const heuristics::AtLimit& value) { return value == heuristics::AtLimit::kStop ? "stop" : "split"; }
  static json of(const Numbers& numbers) {
    json object = json::object();
    for (const auto& [name, value] : numbers) object[name] = value;
    return object;
  }
  template <class T>
  static json of(const std::vector<T>& list) {
    json array = json::array();
    for (const T& element : list) array.push_back(of(element));
    return array;
  }
  template <class T>
  requires std::is_arithmetic_v<T> || std::is_same_v<T, std::string>
  static json of(const T& value) { return value; }
  template <class T>
  requires std::is_class_v<T> &&(!std::is_same_v<T, std::string>)static json of(const T& value) {
    json object = json::object();
    each_field([&](const char* name, const auto& member) { put(object, name, member); }, value);
    return object;
  }
  template <class T>
  static void put(json& object, const char* name, const std::optional<T>& member) {
    if (member) object[name] = of(*member);
  }
  template <class T>
  static void put(json& object, const char* name, const T& member) {
    if constexpr (requires { member.empty(); }) {
      if (member.empty()) return;
    }
    object[name] = of(member);
  }
};

// Throws std::invalid_argument, caught below, with the path to what is wrong.
struct Decode {
  [[noreturn]] static void wrong(const std::string& path, const char* wanted) {
    throw std::invalid_argument((path.empty() ? "it" : path) + " must be " + wanted);
  }
  template <class T>
  requires std::is_same_v<T, bool>
  static void into(T& value, const json& given, const std::string& path) {
    if (!given.is_boolean()) wrong(path, "true or false");
    value = given.get<bool>();
  }
  template <class T>
  requires std::is_integral_v<T> &&
      (!std::is_same_v<T, bool>)static void into(T& value, const json& given, const std::string& path) {
    if (!given.is_number_unsigned() || given.get<std::uint64_t>() > std::numeric_limits<T>::max()) {
      wrong(path, "a whole number that is not negative");
    }
    value = static_cast<T>(given.get<std::uint64_t>());
  }
  static void into(double& value, const json& given, const std::string& path) {
    if (!given.is_number()) wrong(path, "a number");
    value = given.get<double>();
  }
  static void into(std::string& value, const json& given, const std::string& path) {
    if (!given.is_string()) wrong(path, "a text");
    value = given.get<std::string>();
  }
  static void into(heuristics::AtLimit& value, const json& given, const std::string& path) {
    if (given != "stop" && given != "split") wrong(path, "\"stop\" or \"split\"");
    value = given == "stop" ? heuristics::AtLimit::kStop : heuristics::AtLimit::kSplit;
  }
  static void into(Numbers& numbers, const json& given, const std::string& path) {
    if (!given.is_object()) wrong(path, "an object of numbers");
    for (const auto& [name, value] : given.items())
      into(numbers.emplace_back(name, 0.0).second, value, path + "." + name);
  }
  template <class T>
  static void into(std::vector<T>& list, const json& given, const std::string& path) {
    if (!given.is_array()) wrong(path, "a list");
    for (std::size_t i = 0; i < given.size(); ++i)
      into(list.emplace_back(), given[i], path + "[" + std::to_string(i) + "]");
  }
  template <class T>
  static void into(std::optional<T>& value, const json& given, const std::string& path) {
    if (!given.is_null()) into(value.emplace(), given, path);
  }
  template <class T>
  requires std::is_class_v<T> && requires(T& value) {
    each_field([](const char*, auto&) {}, value);
  }
  static void into(T& value, const json& given, const std::string& path) {
    if (!given.is_object()) wrong(path, "an object");
    each_field(
        [&](const char* name, auto& member) {
          const auto found = given.find(name);
          if (found != given.end()) into(member, *found, path.empty() ? name : path + "." + name);
        },
        value);
  }
};

template <class T>
Result<T> decode(std::string_view text, const char* what) {
  const json given = parse_json(text);
  if (given.is_discarded()) return Error{ErrorCode::kInvalid, std::string(what) + " is not JSON"};
  T value;
  try {
    Decode::into(value, given, "");
  } catch (const std::invalid_argument& error) {
    return Error{ErrorCode::kInvalid, std::string(what) + ": " + error.what()};
  }
  return value;
}

// Programs may send bytes that are not UTF-8; they are replaced.
std::string line(const json& value) {
  return json_text(value);
}

}  // namespace

std::string to_json(const ClusterView& view) {
  return line(Encode::of(view));
}

std::string to_json(const Decision& decision) {
  return line(Encode::of(decision));
}

Result<ClusterView> view_from_json(std::string_view text) {
  return decode<ClusterView>(text, "the view");
}

Result<Decision> decision_from_json(std::string_view text) {
  return decode<Decision>(text, "the decision");
}

}  // namespace elastictrain::policy
