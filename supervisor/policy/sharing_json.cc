#include "supervisor/policy/sharing_json.h"

#include <cmath>
#include <stdexcept>

#include "heuristics/sharing/grants.h"
#include "supervisor/policy/view_json.h"
#include "supervisor/protocol/json_text.h"

namespace elastictrain::policy {
namespace {

namespace sharing = heuristics::sharing;
using nlohmann::json;

constexpr int kMaxDepth = 8;

// Unknown and endless values have no place in JSON.
void put(json& out, const char* name, double value) {
  if (std::isfinite(value)) out[name] = value;
}

json throughput_of(const sharing::Curve& curve) {
  json rates = json::array();
  for (std::uint32_t slots = 1; slots <= curve.cap(); ++slots) rates.push_back(curve.best(slots));
  return rates;
}

void put_packing(json& out, const sharing::JobView& job) {
  if (!job.packs) return;
  out["packs"] = true;
  if (job.beside != sharing::kNoJob) out["beside"] = job.beside;
  if (job.only_beside && *job.only_beside != sharing::kNoJob) out["only_beside"] = *job.only_beside;
  if (job.only_beside && *job.only_beside == sharing::kNoJob) out["only_alone"] = true;
  put(out, "alone_rate", job.alone_rate);
  put(out, "packed_rate", job.packed_rate);
  if (job.packed_views > 0) out["packed_views"] = job.packed_views;
}

json job_json(const sharing::JobView& job) {
  json out = {{"id", job.id},
              {"arrival_s", job.arrival_s},
              {"requested", job.requested},
              {"throughput", throughput_of(*job.curve)},
              {"done", job.done},
              {"held", static_cast<std::uint32_t>(job.held)},
              {"running_s", job.running_s},
              {"attained_slot_s", job.attained_slot_s}};
  put(out, "remaining", job.remaining);
  put(out, "first_start_s", job.first_start_s);
  put_packing(out, job);
  return out;
}

[[noreturn]] void wrong(const std::string& path, const char* wanted) {
  throw std::invalid_argument(path + " must be " + wanted);
}

std::uint64_t whole(const json& given, const std::string& path, std::uint64_t most) {
  if (!given.is_number_unsigned() || given.get<std::uint64_t>() > most) {
    wrong(path, "a whole number that is not negative");
  }
  return given.get<std::uint64_t>();
}

// A text, or as a run's policy gives it.
std::string reason_in(const json& job, const std::string& path) {
  const auto given = job.find("reason");
  if (given == job.end()) return "";
  const json text = given->is_object() ? given->value("text", json(given->value("code", json("")))) : *given;
  if (!text.is_string()) wrong(path + ".reason", "a text, or an object with a text");
  return one_line(text.get<std::string>());
}

sharing::Answer::Job job_in(const json& given, const std::string& path) {
  if (!given.is_object()) wrong(path, "an object");
  if (!given.contains("id")) throw std::invalid_argument(path + " has no id");
  sharing::Answer::Job job;
  job.id = whole(given.at("id"), path + ".id", UINT64_MAX);
  if (given.contains("slots")) {
    job.slots = static_cast<std::uint32_t>(whole(given.at("slots"), path + ".slots", UINT32_MAX));
  }
  const auto beside = given.find("beside");
  if (beside != given.end() && !beside->is_null()) job.beside = whole(*beside, path + ".beside", UINT64_MAX);
  job.reason = reason_in(given, path);
  return job;
}

sharing::Answer answer_in(const json& given) {
  if (given.is_discarded()) throw std::invalid_argument("the decision is not JSON");
  if (!given.is_object() || !given.contains("jobs") || !given.at("jobs").is_array()) wrong("jobs", "a list");
  sharing::Answer answer;
  const json& jobs = given.at("jobs");
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    answer.jobs.push_back(job_in(jobs[i], "jobs[" + std::to_string(i) + "]"));
  }
  const auto again = given.find("again_s");
  if (again == given.end() || again->is_null()) return answer;
  if (!again->is_number()) wrong("again_s", "a number");
  answer.again_s = again->get<double>();
  return answer;
}

}  // namespace

std::string to_json(const sharing::View& view) {
  json out = {{"now_s", view.now_s},    {"slots", view.slots},   {"priority", view.priority},
              {"hosts", json::array()}, {"jobs", json::array()}, {"ended", json::array()}};
  for (const sharing::Host& host : view.hosts) out["hosts"].push_back({{"name", host.name}, {"slots", host.slots}});
  for (const sharing::JobView& job : view.jobs) out["jobs"].push_back(job_json(job));
  for (const sharing::EndedJob& job : view.ended) {
    out["ended"].push_back(
        {{"id", job.id}, {"requested", job.requested}, {"attained_slot_s", job.attained_slot_s}, {"work", job.work}});
  }
  return json_text(out);
}

sharing::Decision sharing_decision(std::string_view text, const sharing::View& view) {
  try {
    return sharing::decision_of(answer_in(parse_json(text, kMaxDepth)), view);
  } catch (const std::invalid_argument& error) {
    sharing::Decision none;
    none.problem = error.what();
    return none;
  }
}

}  // namespace elastictrain::policy
