#include "heuristics/autoscale/smoothing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace elastictrain::heuristics {
namespace {

constexpr double kSlopeVariance = 0.5;    // of the change of the efficiency over a factor of e in size
constexpr double kMinDeviation = 1e-4;    // of a rate, so that no rate counts as exact

using Matrix = std::vector<std::vector<double>>;

// Inverts a symmetric positive definite matrix by Gauss-Jordan elimination.
Matrix inverse(Matrix matrix) {
  const std::size_t n = matrix.size();
  Matrix result(n, std::vector<double>(n));
  for (std::size_t i = 0; i < n; ++i) result[i][i] = 1;
  for (std::size_t column = 0; column < n; ++column) {
    const double pivot = matrix[column][column];
    for (std::size_t j = 0; j < n; ++j) {
      matrix[column][j] /= pivot;
      result[column][j] /= pivot;
    }
    for (std::size_t row = 0; row < n; ++row) {
      const double factor = matrix[row][column];
      if (row == column || factor == 0) continue;
      for (std::size_t j = 0; j < n; ++j) {
        matrix[row][j] -= factor * matrix[column][j];
        result[row][j] -= factor * result[column][j];
      }
    }
  }
  return result;
}

// Weights of a change of slope at the middle of three sizes.
void add_bend(Matrix& precision, std::size_t i, double left, double right) {
  const std::array<double, 3> bend{1 / left, -1 / left - 1 / right, 1 / right};
  const double weight = 1 / (kSlopeVariance * (left + right) / 2);
  for (std::size_t a = 0; a < 3; ++a) {
    for (std::size_t b = 0; b < 3; ++b) precision[i + a][i + b] += weight * bend[a] * bend[b];
  }
}

}  // namespace

std::vector<LogRate> smoothed(const std::vector<NoisyRate>& rates, std::uint32_t cut_after) {
  const std::size_t n = rates.size();
  Matrix precision(n, std::vector<double>(n));
  std::vector<double> weights(n);
  for (std::size_t i = 0; i < n; ++i) {
    const double deviation = std::max(rates[i].rate.deviation, kMinDeviation);
    precision[i][i] += weights[i] = 1 / (deviation * deviation);
  }
  for (std::size_t i = 0; i + 2 < n; ++i) {
    if (rates[i].workers <= cut_after && rates[i + 2].workers > cut_after) continue;
    const auto distance = [&](std::size_t from) {
      return std::log(static_cast<double>(rates[from + 1].workers) / rates[from].workers);
    };
    add_bend(precision, i, distance(i), distance(i + 1));
  }
  const Matrix covariance = inverse(std::move(precision));
  std::vector<LogRate> result(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) result[i].value += covariance[i][j] * weights[j] * rates[j].rate.value;
    result[i].deviation = std::sqrt(covariance[i][i]);
  }
  return result;
}

}  // namespace elastictrain::heuristics
