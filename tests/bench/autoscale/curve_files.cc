#include "tests/bench/autoscale/curve_files.h"

#include <cstdlib>
#include <filesystem>
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
  const auto from = word.find_first_not_of(" `\r");
  const auto to = word.find_last_not_of(" `\r");
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

// Rows "GPUs | a | b" from `line` on: one curve for each column.
void add_table(const std::vector<std::string>& lines, std::size_t line, std::size_t first_column,
               std::uint32_t slots_per_host,
               const std::vector<std::pair<std::string, std::uint32_t>>& names_and_batches,
               std::vector<RealCurve>& all) {
  std::vector<Points> points(names_and_batches.size());
  for (line += 2; line < lines.size() && lines[line].find('|') != std::string::npos; ++line) {
    const auto words = split(lines[line], '|');
    const auto gpus = static_cast<std::uint32_t>(std::stoul(words.at(first_column)));
    for (std::size_t i = 0; i < points.size(); ++i)
      points[i].emplace_back(gpus, std::stod(words.at(first_column + 1 + i)));
  }
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto& [name, batch] = names_and_batches[i];
    if (points[i].empty()) throw std::runtime_error("no rows for " + name);
    all.push_back({name, ThroughputCurve(points[i]), fixed_per_worker(batch), slots_per_host});
  }
}

void add_tensorflow(const std::string& traces, std::vector<RealCurve>& all) {
  const auto lines = lines_of(traces + "/tensorflow+tensorflow/tensorflow/docs_src/performance/benchmarks.md");
  bool distributed = false;
  int tables = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].rfind("## ", 0) == 0) distributed = lines[i].find("EC2 Distributed") != std::string::npos;
    if (!distributed || lines[i].rfind("GPUs |", 0) != 0) continue;
    if (++tables == 1) {
      add_table(lines, i, 0, 8, {{"tf-k80/inception3@64", 64}, {"tf-k80/resnet50@64", 64}, {"tf-k80/resnet152@32", 32}},
                all);
    } else {
      add_table(lines, i, 0, 8, {{"tf-k80/inception3@32", 32}, {"tf-k80/resnet50@32", 32}}, all);
    }
  }
  if (tables != 2) throw std::runtime_error("the TensorFlow benchmarks have other tables than expected");
}

void add_mxnet(const std::string& traces, std::vector<RealCurve>& all) {
  const auto lines = lines_of(traces + "/apache+mxnet/example/image-classification/README.md");
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].rfind("| #GPUs", 0) != 0) continue;
    add_table(lines, i, 1, 16,
              {{"mxnet-k80/alexnet@512", 512}, {"mxnet-k80/inception3@32", 32}, {"mxnet-k80/resnet152@32", 32}}, all);
    return;
  }
  throw std::runtime_error("the MXNet README has no table of GPUs");
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

void add_pollux(const std::string& traces, const std::string& model, std::vector<RealCurve>& all) {
  const std::string folder = traces + "/petuum+adaptdl/simulator/traces/" + model;
  PolluxRates rates;
  const auto placements = lines_of(folder + "/placements.csv");
  for (std::size_t i = 1; i < placements.size(); ++i) {
    const auto words = split(placements[i], ',');
    std::uint32_t gpus = 0;
    for (const char digit : words.at(0)) gpus += static_cast<std::uint32_t>(digit - '0');
    if (is_packed(words[0], gpus)) add_pollux_rate(rates, gpus, words.at(1), words.at(2));
  }
  const auto scalability = lines_of(folder + "/scalability.csv");
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

void add_elasticflow(const std::string& traces, const std::string& model, std::vector<RealCurve>& all) {
  const auto lines = lines_of(traces + "/pkusys+ElasticFlow/ElasticFlow/scheduler/throughputs_A100/" + model + ".csv");
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

std::string traces_folder() {
  const char* given = std::getenv("ELASTICTRAIN_SHARED");
  const std::string folder = std::string(given ? given : ELASTICTRAIN_SHARED_FOLDER) + "/traces";
  return std::filesystem::is_directory(folder) ? folder : "";
}

std::vector<RealCurve> real_curves(const std::string& traces) {
  std::vector<RealCurve> all;
  add_tensorflow(traces, all);
  add_mxnet(traces, all);
  for (const char* model : {"bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3"})
    add_pollux(traces, model, all);
  for (const char* model : {"bert", "deepspeech2", "gpt2", "inception3", "resnet50", "resnet50_cifar10", "vgg16"}) {
    add_elasticflow(traces, model, all);
  }
  all.push_back(talk_curve());
  return all;
}

RealCurve talk_curve() {
  return {"talk-v100/resnet50@128", ThroughputCurve({{16, 2200}, {32, 4000}, {64, 5000}}), fixed_per_worker(128), 8};
}

}  // namespace elastictrain::bench
