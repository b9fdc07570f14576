// Purpose: the same timing loop for every implementation of all-reduce, so that only the implementation differs.
//
// Sizes are timed one after the other: warm-up, then `repetitions` rounds of back-to-back all-reduces in user memory.
// Rank 0 prints one JSON object per line: {"bytes": …, "us": [one mean per round]}.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

namespace elastictrain::bench {

struct LoopOptions {
  std::vector<std::size_t> sizes_bytes{4 << 10, 1 << 20, 25 << 20, 100 << 20};
  int repetitions = 5;
  double round_seconds = 0.12;
};

using AllReduce = std::function<void(float*, std::size_t)>;

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

inline double time_round(const AllReduce& all_reduce, std::vector<float>& data, int count) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) all_reduce(data.data(), data.size());
  return seconds_since(start) / count;
}

inline constexpr std::size_t kDecisionValues = 16;

// All ranks must make the same number of calls: rank 0 decides, and an all-reduce distributes its decision.
inline int agree_on_count(const AllReduce& all_reduce, int rank, double estimate, double round_seconds) {
  const double wanted = std::clamp(round_seconds / std::max(estimate, 1e-9), 2.0, 20'000.0);
  std::vector<float> decision(kDecisionValues, rank == 0 ? static_cast<float>(static_cast<int>(wanted)) : 0.0F);
  all_reduce(decision.data(), decision.size());
  return static_cast<int>(decision[0]);
}

inline void run_loop(const LoopOptions& options, int rank, const AllReduce& all_reduce) {
  for (const std::size_t bytes : options.sizes_bytes) {
    std::vector<float> data(bytes / sizeof(float), 0.0F);
    time_round(all_reduce, data, 2);
    const int count = agree_on_count(all_reduce, rank, time_round(all_reduce, data, 2), options.round_seconds);
    std::string line;
    for (int round = 0; round < options.repetitions; ++round) {
      line += (line.empty() ? "" : ", ") + std::to_string(time_round(all_reduce, data, count) * 1e6);
    }
    if (rank == 0) std::printf("{\"bytes\": %zu, \"us\": [%s]}\n", bytes, line.c_str());
    std::fflush(stdout);
  }
}

inline std::vector<std::size_t> parse_sizes(const std::string& text) {
  std::vector<std::size_t> sizes;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) sizes.push_back(std::stoul(part));
  return sizes;
}

}  // namespace elastictrain::bench
