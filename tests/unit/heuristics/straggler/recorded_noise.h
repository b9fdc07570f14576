// Purpose: compute times recorded from real workers (data/README.md), as factors of each worker's median, for any
// number of simulated workers: each reads one recorded worker from a place of its own, in the recorded order.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace elastictrain::heuristics {

class RecordedNoise {
 public:
  // Empty when the file cannot be read.
  static RecordedNoise read(const std::string& path) {
    RecordedNoise noise;
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) noise.add_row(line);
    for (auto& column : noise.columns_) {
      std::vector<double> sorted = column;
      std::sort(sorted.begin(), sorted.end());
      const double median_us = sorted[sorted.size() / 2];
      noise.median_s_ += median_us / 1e6 / static_cast<double>(noise.columns_.size());
      for (double& value : column) value /= median_us;
    }
    return noise;
  }

  // Made, not recorded: normal noise that lasts over steps (correlation 0.9), a step in 20 a spike with a heavy tail
  // (Pareto, exponent 1.2: no variance), and once in 500 steps ten slow ones in a row.
  static RecordedNoise heavy_tailed(std::uint64_t workers, std::uint64_t steps, double deviation, std::uint64_t seed) {
    RecordedNoise noise;
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> uniform(1e-6, 1);
    for (std::uint64_t worker = 0; worker < workers; ++worker) {
      auto& column = noise.columns_.emplace_back();
      double lasting = 0;
      std::uint64_t slow = 0;
      for (std::uint64_t step = 0; step < steps; ++step) {
        lasting = 0.9 * lasting + std::sqrt(1 - 0.81) * normal(random);
        double factor = std::exp(deviation * (lasting + normal(random)) / std::sqrt(2.0));
        if (uniform(random) < 0.05) factor *= std::pow(uniform(random), -1 / 1.2);
        if (uniform(random) < 0.002) slow = 10;
        if (slow > 0) factor *= 2;
        slow -= slow > 0 ? 1 : 0;
        column.push_back(factor);
      }
    }
    return noise;
  }

  bool empty() const { return columns_.empty(); }
  std::uint64_t steps() const { return columns_.empty() ? 0 : columns_[0].size(); }
  std::uint64_t workers() const { return columns_.size(); }
  double median_s() const { return median_s_; }  // mean over the workers; 0 where it was not recorded

  // With `seed` 0 the recorded workers themselves, from their first step; else each from a place of its own.
  double operator()(std::uint64_t worker, std::uint64_t step, std::uint64_t seed) const {
    const auto& column = columns_[worker % columns_.size()];
    std::uint64_t from = 0;
    if (seed != 0 || worker >= columns_.size()) from = std::mt19937_64(seed * 1'000'003 + worker)();
    return column[(from + step) % column.size()];
  }

 private:
  void add_row(const std::string& line) {
    std::istringstream fields(line);
    std::string field;
    std::getline(fields, field, ',');  // when
    for (std::size_t worker = 0; std::getline(fields, field, ','); ++worker) {
      if (worker == columns_.size()) columns_.emplace_back();
      columns_[worker].push_back(std::stod(field));
    }
  }

  std::vector<std::vector<double>> columns_;
  double median_s_ = 0;
};

}  // namespace elastictrain::heuristics
