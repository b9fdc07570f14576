// A policy as a shared object: grows the run while each worker keeps a share of the throughput it had at the first
// size.
//
//   c++ -std=c++20 -O2 -shared -fPIC -I supervisor/policy/include scripts/policies/policy.cc -o policy.so
//
//   [policy]
//   library = "policy.so"
//   argument = "0.8"    # the share; default 0.8
//   interval_ms = 5000
//
// supervisor/policy/README.md describes views and decisions. An installed elastictrain has the header in the directory
// that `pkg-config --cflags elastictrain` prints. This program reads JSON with nlohmann-json3-dev; any other parser
// works.
#include <elastictrain/policy.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

using nlohmann::json;

namespace {

struct Memory {
  double share = 0.8;
  double first = 0;  // samples per second and worker at the first measured size
  bool settled = false;
};

json decide(Memory& memory, const json& job) {
  const int workers = job.at("workers");
  double seconds = 0, samples = 0;
  for (const json& interval : job.value("intervals", json::array())) {
    if (interval.at("warm_up") || interval.at("workers") != workers) continue;
    seconds += interval.at("end_s").get<double>() - interval.at("begin_s").get<double>();
    samples += interval.at("samples").get<double>();
  }
  if (seconds <= 0) return {{"reason", {{"code", "measuring"}, {"text", "measuring this size"}}}};
  const double each = samples / seconds / workers;
  if (memory.first == 0) memory.first = each;
  const double share = each / memory.first;
  const int max = std::min(job.at("max_workers").get<int>(), job.at("reachable").get<int>());
  json decision = {{"reason",
                    {{"text", "each worker has " + std::to_string(share) + " of its first throughput"},
                     {"numbers", {{"share", share}}}}}};
  std::string code = "at_limit";
  if (memory.settled) {
    code = "settled";
  } else if (share < memory.share) {
    code = "pays_no_more";
    memory.settled = true;
    decision["workers"] = workers - 1;
  } else if (workers < max) {
    code = "grow";
    decision["workers"] = workers + 1;
  }
  decision["reason"]["code"] = code;
  return decision;
}

void* create(const char* argument, uint64_t, elastictrain_policy_say say, void* context) {
  Memory memory;
  if (*argument != '\0') memory.share = std::atof(argument);
  if (memory.share > 0 && memory.share <= 1) return new Memory(memory);
  const std::string why = "write a share above 0, up to 1";
  say(context, why.data(), why.size());
  return nullptr;
}

void decide(void* state, const char* view, size_t bytes, elastictrain_policy_say say, void* context) {
  const json jobs = json::parse(view, view + bytes).at("jobs");
  const std::string text = json{{"jobs", json::array({decide(*static_cast<Memory*>(state), jobs.at(0))})}}.dump();
  say(context, text.data(), text.size());
}

void destroy(void* state) {
  delete static_cast<Memory*>(state);
}

const elastictrain_policy_v1 policy = {ELASTICTRAIN_POLICY_VERSION, create, decide, destroy};

}  // namespace

const elastictrain_policy_v1* elastictrain_policy(uint32_t version) {
  return version == ELASTICTRAIN_POLICY_VERSION ? &policy : nullptr;
}
