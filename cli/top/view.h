// Purpose: the view that `top` shows of a run: the answer to a status request, as typed values. Pure. Fields that are
// missing or of another type keep their defaults.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace elastictrain::cli::top {

struct Worker {
  std::int64_t id = 0;
  std::optional<std::int64_t> rank;
  std::string host;
  std::string phase;
  std::string doing;  // what the program says it is doing
  std::int64_t step = 0;
  std::int64_t pid = 0;
  double step_ms = 0;
  double compute_ms = 0;
  double data_ms = 0;
  double communicate_ms = 0;
  double quiet_ms = 0;
};

struct Host {
  std::string name;
  std::string phase;
  std::int64_t workers = 0;
  std::int64_t slots = 0;
};

struct View {
  std::string name;
  std::string phase;
  std::int64_t world_size = 0;
  std::int64_t target_size = 0;
  std::int64_t generation = 0;
  double uptime_s = 0;
  double epoch = 0;
  std::int64_t epochs = 0;  // 0: not known
  double epoch_fraction = 0;
  std::optional<double> time_left_s;
  std::int64_t step = 0;
  double loss = 0;
  double samples_per_s = 0;
  std::optional<double> efficiency;
  double cost = 0;
  double worker_seconds = 0;
  double idle_s = 0;
  std::int64_t recoveries = 0;
  std::string size_reason;
  std::string last_change;
  std::string journal;
  std::vector<Worker> workers;
  std::vector<Host> hosts;
};

View view_of(const nlohmann::json& status);

}  // namespace elastictrain::cli::top
