#include "tests/bench/autoscale/curve_files.h"

#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>

namespace elastictrain::bench {
namespace {

using heuristics::BatchRule;
using heuristics::ThroughputCurve;
using Points = std::vector<std::pair<std::uint32_t, double>>;

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::string trimmed(std::string word) {
  const auto from = word.find_first_not_of(" \r");
  const auto to = word.find_last_not_of(" \r");
  return from == std::string::npos ? "" : word.substr(from, to - from + 1);
}

std::vector<std::string> split(const std::string& line, char separator) {
  std::vector<std::string> words;
  std::istringstream stream(line);
  for (std::string word; std::getline(stream, word, separator);) words.push_back(trimmed(word));
  return words;
}

BatchRule fixed_per_worker(std::uint32_t samples) {
  BatchRule rule;
  rule.per_worker = samples;
  return rule;
}

// "resnet50@64": 64 samples in one step of each worker.
std::uint32_t batch_of(const std::string& title) {
  return static_cast<std::uint32_t>(std::stoul(title.substr(title.find('@') + 1)));
}

// A table "gpus,model@batch,…" in samples/s: one curve for each model.
void add_table(const std::string& path, const std::string& system, std::uint32_t slots_per_host,
               std::vector<RealCurve>& all) {
  const auto lines = lines_of(path);
  const auto titles = split(lines.at(0), ',');
  for (std::size_t column = 1; column < titles.size(); ++column) {
    Points points;
    for (std::size_t i = 1; i < lines.size(); ++i) {
      const auto cells = split(lines[i], ',');
      points.emplace_back(static_cast<std::uint32_t>(std::stoul(cells.at(0))), std::stod(cells.at(column)));
    }
    all.push_back({system + "/" + titles[column], ThroughputCurve(points), fixed_per_worker(batch_of(titles[column])),
                   slots_per_host});
  }
}

// "1224": workers on each host. Full hosts of four and a rest.
bool is_packed(const std::string& placement, std::uint32_t gpus) {
  return placement.size() == (gpus + 3) / 4;
}

// Per local batch and GPUs: (sum of rates, how many placements).
using PolluxRates = std::map<std::uint32_t, std::map<std::uint32_t, std::pair<double, int>>>;

void add_pollux_rate(PolluxRates& rates, std::uint32_t gpus, const std::string& batch, const std::string& step_s) {
  const auto local = static_cast<std::uint32_t>(std::stoul(batch));
  auto& [sum, count] = rates[local][gpus];
  sum += gpus * local / std::stod(step_s);
  ++count;
}

void add_pollux(const std::string& folder, const std::string& model, std::vector<RealCurve>& all) {
  PolluxRates rates;
  const auto placements = lines_of(folder + "/adaptdl/" + model + "/placements.csv");
  for (std::size_t i = 1; i < placements.size(); ++i) {
    const auto words = split(placements[i], ',');
    std::uint32_t gpus = 0;
    for (const char digit : words.at(0)) gpus += static_cast<std::uint32_t>(digit - '0');
    if (is_packed(words[0], gpus)) add_pollux_rate(rates, gpus, words.at(1), words.at(2));
  }
  const auto scalability = lines_of(folder + "/adaptdl/" + model + "/scalability.csv");
  for (std::size_t i = 1; i < scalability.size(); ++i) {
    const auto words = split(scalability[i], ',');
    const auto gpus = static_cast<std::uint32_t>(std::stoul(words.at(1)));
    if (gpus > 16) add_pollux_rate(rates, gpus, words.at(2), words.at(3));
  }
  for (const auto& [local, sizes] : rates) {
    if (sizes.rbegin()->first < 32) continue;
    Points points;
    for (const auto& [gpus, rate] : sizes) points.emplace_back(gpus, rate.first / rate.second);
    all.push_back(
        {"pollux-t4/" + model + "@" + std::to_string(local), ThroughputCurve(points), fixed_per_worker(local), 4});
  }
}

void add_elasticflow(const std::string& folder, const std::string& model, std::vector<RealCurve>& all) {
  const auto lines = lines_of(folder + "/elasticflow/" + model + ".csv");
  const auto sizes = split(lines.at(0), ',');
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const auto words = split(lines[i], ',');
    BatchRule rule;
    rule.per_worker = static_cast<std::uint32_t>(std::stoul(words.at(0)));
    rule.max_global = rule.per_worker;
    Points points;
    for (std::size_t column = 1; column < words.size(); ++column) {
      const double steps_per_s = words[column].empty() ? 0 : std::stod(words[column]);
      if (steps_per_s > 0) {
        points.emplace_back(static_cast<std::uint32_t>(std::stoul(sizes.at(column))), steps_per_s * rule.per_worker);
      }
    }
    all.push_back({"elasticflow-a100/" + model + "@" + words[0], ThroughputCurve(points), rule, 8});
  }
}

}  // namespace

std::vector<RealCurve> real_curves(const std::string& folder) {
  std::vector<RealCurve> all;
  add_table(folder + "/tensorflow/k80_batch_64.csv", "tf-k80", 8, all);
  add_table(folder + "/tensorflow/k80_batch_32.csv", "tf-k80", 8, all);
  add_table(folder + "/mxnet/k80.csv", "mxnet-k80", 16, all);
  for (const char* model : {"bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3"})
    add_pollux(folder, model, all);
  for (const char* model : {"bert", "deepspeech2", "gpt2", "inception3", "resnet50", "resnet50_cifar10", "vgg16"}) {
    add_elasticflow(folder, model, all);
  }
  all.push_back(talk_curve());
  return all;
}

RealCurve talk_curve() {
  return {"talk-v100/resnet50@128", ThroughputCurve({{16, 2200}, {32, 4000}, {64, 5000}}), fixed_per_worker(128), 8};
}

}  // namespace elastictrain::bench
