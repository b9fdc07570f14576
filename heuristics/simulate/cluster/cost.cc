#include "heuristics/simulate/cluster/cost.h"

#include <algorithm>
#include <array>
#include <map>

namespace elastictrain::heuristics::cluster {

double muri_overhead_s(const std::string& model, std::uint32_t slots) {
  using Row = std::array<double, 6>;  // on 1, 2, 4, 8, 16, 32 slots
  static const std::map<std::string, Row> table = {
      {"vgg16", {7, 7, 8, 9, 9, 10}},     {"vgg19", {7, 7, 8, 9, 10, 10}},
      {"resnet18", {4, 5, 5, 7, 7, 7}},   {"shufflenet_v2_x1_0", {4, 4, 5, 5, 7, 8}},
      {"a2c", {38, 39, 39, 46, 46, 46}},  {"dqn", {5, 5, 6, 6, 8, 8}},
      {"bert", {10, 10, 10, 10, 10, 10}}, {"gpt2", {10, 10, 10, 10, 10, 10}}};
  const auto row = table.find(model);
  if (row == table.end()) return -1;
  std::size_t column = 0;
  while ((2U << column) <= slots && column + 1 < row->second.size()) ++column;
  return row->second[column];
}

}  // namespace elastictrain::heuristics::cluster
