// Purpose: how well the end of a job is foreseen from its loss. Reads the losses of a finished job from standard input,
// "SAMPLES LOSS" a line; arguments: samples of an epoch, threshold, windows, and optionally how many steps there are
// between two heartbeats, which have the mean of their losses ("mean", the default) or the last one ("last"). Writes
// one JSON object a line: the true end first (null: the job did not converge), then the estimate at each quarter of the
// way there.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "heuristics/convergence/convergence.h"

namespace {

using namespace elastictrain::heuristics;

std::vector<LossPoint> read_losses() {
  std::vector<LossPoint> losses;
  LossPoint one;
  while (std::cin >> one.samples >> one.loss) losses.push_back(one);
  return losses;
}

// What heartbeats say of these losses: the mean at the middle of its steps, or the last one.
std::vector<LossPoint> heard(const std::vector<LossPoint>& losses, std::size_t steps, bool means) {
  std::vector<LossPoint> heartbeats;
  for (std::size_t end = steps; end <= losses.size(); end += steps) {
    LossPoint sum;
    for (std::size_t i = end - steps; i < end; ++i) {
      sum.samples += losses[i].samples / static_cast<double>(steps);
      sum.loss += losses[i].loss / static_cast<double>(steps);
    }
    heartbeats.push_back(means ? sum : losses[end - 1]);
  }
  return heartbeats;
}

Convergence seen(const std::vector<LossPoint>& losses, double until, const ConvergenceSettings& settings) {
  Convergence convergence(settings);
  for (const LossPoint& one : losses) {
    if (one.samples <= until) convergence.add(one.samples, one.loss);
  }
  return convergence;
}

std::vector<double> means_of_epochs(const std::vector<LossPoint>& losses, double epoch) {
  std::vector<double> sums, counts;
  for (const LossPoint& one : losses) {
    const auto place = static_cast<std::size_t>((one.samples - 1) / epoch);
    if (sums.size() <= place) sums.resize(place + 1), counts.resize(place + 1);
    sums[place] += one.loss;
    counts[place] += 1;
  }
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] /= std::max(counts[i], 1.0);
  return sums;
}

// After the epochs in a row whose mean losses are less than the threshold below those before them.
std::optional<double> true_end(const std::vector<LossPoint>& losses, double epoch,
                               const ConvergenceSettings& settings) {
  const double least = settings.threshold * seen(losses, losses.back().samples, settings).largest();
  const auto means = means_of_epochs(losses, epoch);
  std::uint32_t in_row = 0;
  for (std::size_t i = 1; i < means.size(); ++i) {
    in_row = means[i - 1] - means[i] < least ? in_row + 1 : 0;
    if (in_row == settings.windows) return static_cast<double>(i + 1) * epoch;
  }
  return std::nullopt;
}

}  // namespace

int main(int argc, char** argv) {
  const double epoch = argc > 1 ? std::atof(argv[1]) : 0;
  ConvergenceSettings settings;
  if (argc > 2) settings.threshold = std::atof(argv[2]);
  if (argc > 3) settings.windows = static_cast<std::uint32_t>(std::atoi(argv[3]));
  const std::size_t steps = argc > 4 ? std::max(1, std::atoi(argv[4])) : 1;
  const bool means = argc <= 5 || argv[5] != std::string("last");
  const auto losses = read_losses();
  if (epoch <= 0 || losses.empty()) return EXIT_FAILURE;
  const auto end = true_end(losses, epoch, settings);
  const auto heartbeats = heard(losses, steps, means);
  std::cout << R"({"end":)" << (end ? std::to_string(*end) : "null") << "}\n";
  for (const double share : {0.25, 0.5, 0.75}) {
    if (!end) break;
    const auto convergence = seen(heartbeats, share * *end, settings);
    const auto found = convergence.estimate(epoch);
    std::cout << R"({"share":)" << share;
    if (found) std::cout << R"(,"samples":)" << found->samples << R"(,"error":)" << found->error;
    std::cout << R"(,"why_not":")" << convergence.why_not(epoch) << "\"}\n";
  }
  return EXIT_SUCCESS;
}
