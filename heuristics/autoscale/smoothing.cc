#include "heuristics/autoscale/smoothing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace elastictrain::heuristics {
namespace {

constexpr double kSlopeVariance = 0.5;  // of the change of the efficiency over a factor of e in size, of a smooth curve
constexpr std::array kRuggedness{1.0, 4.0, 16.0, 64.0};  // its multiples that are compared
constexpr double kMinDeviation = 1e-4;                   // of a rate, so that no rate counts as exact

using Matrix = std::vector<std::vector<double>>;

struct Inverse {
  Matrix matrix;
  double log_determinant = 0;  // of what was inverted
};

// Inverts a symmetric positive definite matrix by Gauss-Jordan elimination.
Inverse inverse(Matrix matrix) {
  const std::size_t n = matrix.size();
  Inverse result{Matrix(n, std::vector<double>(n))};
  for (std::size_t i = 0; i < n; ++i) result.matrix[i][i] = 1;
  for (std::size_t column = 0; column < n; ++column) {
    const double pivot = matrix[column][column];
    result.log_determinant += std::log(pivot);
    for (std::size_t j = 0; j < n; ++j) {
      matrix[column][j] /= pivot;
      result.matrix[column][j] /= pivot;
    }
    for (std::size_t row = 0; row < n; ++row) {
      const double factor = matrix[row][column];
      if (row == column || factor == 0) continue;
      for (std::size_t j = 0; j < n; ++j) {
        matrix[row][j] -= factor * matrix[column][j];
        result.matrix[row][j] -= factor * result.matrix[column][j];
      }
    }
  }
  return result;
}

// Weights of a change of slope at the middle of three sizes.
void add_bend(Matrix& precision, std::size_t i, double left, double right, double variance) {
  const std::array<double, 3> bend{1 / left, -1 / left - 1 / right, 1 / right};
  const double weight = 1 / (variance * (left + right) / 2);
  for (std::size_t a = 0; a < 3; ++a) {
    for (std::size_t b = 0; b < 3; ++b) precision[i + a][i + b] += weight * bend[a] * bend[b];
  }
}

// Adds the weights of all changes of slope. Returns their number.
std::size_t add_bends(Matrix& precision, const std::vector<NoisyRate>& rates, std::uint32_t cut_after,
                      double variance) {
  std::size_t bends = 0;
  for (std::size_t i = 0; i + 2 < rates.size(); ++i) {
    if (rates[i].workers <= cut_after && rates[i + 2].workers > cut_after) continue;
    const auto distance = [&](std::size_t from) {
      return std::log(static_cast<double>(rates[from + 1].workers) / rates[from].workers);
    };
    add_bend(precision, i, distance(i), distance(i + 1), variance);
    ++bends;
  }
  return bends;
}

struct Fit {
  std::vector<LogRate> rates;
  double log_likelihood = 0;  // of the measured rates, up to a constant
};

Fit fit(const std::vector<NoisyRate>& rates, std::uint32_t cut_after, double variance) {
  const std::size_t n = rates.size();
  Matrix precision(n, std::vector<double>(n));
  std::vector<double> weights(n);
  for (std::size_t i = 0; i < n; ++i) {
    const double deviation = std::max(rates[i].rate.deviation, kMinDeviation);
    precision[i][i] += weights[i] = 1 / (deviation * deviation);
  }
  const std::size_t bends = add_bends(precision, rates, cut_after, variance);
  const Inverse covariance = inverse(std::move(precision));
  Fit result{std::vector<LogRate>(n)};
  double squares = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double first = rates[0].rate.value;  // levels do not count
    double value = 0;
    for (std::size_t j = 0; j < n; ++j) value += covariance.matrix[i][j] * weights[j] * (rates[j].rate.value - first);
    const double measured = rates[i].rate.value - first;
    squares += weights[i] * measured * (measured - value);
    result.rates[i] = {first + value, std::sqrt(covariance.matrix[i][i])};
  }
  result.log_likelihood = -(covariance.log_determinant + static_cast<double>(bends) * std::log(variance) + squares) / 2;
  return result;
}

}  // namespace

std::vector<LogRate> smoothed(const std::vector<NoisyRate>& rates, std::uint32_t cut_after) {
  if (rates.empty()) return {};
  Fit best;
  for (const double times : kRuggedness) {
    Fit found = fit(rates, cut_after, times * kSlopeVariance);
    if (best.rates.empty() || found.log_likelihood > best.log_likelihood) best = std::move(found);
  }
  return best.rates;
}

}  // namespace elastictrain::heuristics
