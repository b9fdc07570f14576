#include "tests/bench/plan/pollux_tables.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace elastictrain::plan_bench {
namespace {

using heuristics::EpochsPoint;
using heuristics::StepTimePoint;

std::vector<std::vector<std::string>> rows_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  std::vector<std::vector<std::string>> rows;
  std::string line;
  std::getline(file, line);  // titles
  while (std::getline(file, line)) {
    rows.emplace_back();
    std::stringstream cells(line);
    for (std::string cell; std::getline(cells, cell, ',');) rows.back().push_back(cell);
  }
  return rows;
}

std::filesystem::path folder(const std::string& curves, const std::string& model) {
  return std::filesystem::path(curves) / "adaptdl" / model;
}

}  // namespace

const std::vector<std::string>& pollux_models() {
  static const std::vector<std::string> kModels{"bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3"};
  return kModels;
}

std::vector<StepTimePoint> step_times(const std::string& curves, const std::string& model,
                                      std::uint32_t workers_per_host) {
  std::vector<StepTimePoint> points;
  const char each = static_cast<char>('0' + workers_per_host);
  for (const auto& row : rows_of(folder(curves, model) / "placements.csv")) {  // one digit for each host
    const std::string& placement = row.at(0);
    if (placement.find_first_not_of(each) != std::string::npos) continue;
    const auto workers = static_cast<std::uint32_t>(placement.size()) * workers_per_host;
    points.push_back({workers, std::stod(row.at(1)), std::stod(row.at(2))});
  }
  for (const auto& row : rows_of(folder(curves, model) / "scalability.csv")) {
    const auto workers = static_cast<std::uint32_t>(std::stoul(row.at(1)));
    if (workers != std::stoul(row.at(0)) * workers_per_host) continue;
    points.push_back({workers, std::stod(row.at(2)), std::stod(row.at(3))});
  }
  std::sort(points.begin(), points.end(), [](const auto& a, const auto& b) {
    return a.workers != b.workers ? a.workers < b.workers : a.local_batch < b.local_batch;
  });
  return points;
}

std::vector<EpochsPoint> epochs_by_batch(const std::string& curves, const std::string& model) {
  std::map<double, double> samples;
  const std::string prefix = "validation-";
  for (const auto& entry : std::filesystem::directory_iterator(folder(curves, model))) {
    const std::string name = entry.path().stem().string();
    if (name.rfind(prefix, 0) != 0) continue;
    const double batch = std::stod(name.substr(prefix.size()));
    samples[batch] = std::stod(rows_of(entry.path()).back().at(1)) * batch;
  }
  std::vector<EpochsPoint> points;
  for (const auto& [batch, count] : samples) points.push_back({batch, count / samples.begin()->second});
  return points;
}

double epochs_between(const std::vector<EpochsPoint>& measured, double global_batch) {
  for (std::size_t i = 0; i + 1 < measured.size(); ++i) {
    const auto& low = measured[i];
    const auto& high = measured[i + 1];
    if (global_batch < low.global_batch || global_batch > high.global_batch) continue;
    const double part = std::log(global_batch / low.global_batch) / std::log(high.global_batch / low.global_batch);
    return low.epochs * std::pow(high.epochs / low.epochs, part);
  }
  return 0;
}

}  // namespace elastictrain::plan_bench
