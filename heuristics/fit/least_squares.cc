#include "heuristics/fit/least_squares.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace elastictrain::heuristics {
namespace {

double half_square(const Vector& residuals) {
  double sum = 0;
  for (const double residual : residuals) sum += residual * residual;
  return std::isfinite(sum) ? sum / 2 : INFINITY;
}

Vector within(Vector point, const Bounds& bounds) {
  for (std::size_t i = 0; i < point.size(); ++i) point[i] = std::clamp(point[i], bounds.lower[i], bounds.upper[i]);
  return point;
}

// Differences towards the inside near the upper bound. Row i: derivatives of all residuals for unknown i.
Matrix derivatives(const std::function<Vector(const Vector&)>& residuals, const Vector& at, const Vector& here,
                   const Bounds& bounds) {
  Matrix rows(at.size());
  for (std::size_t i = 0; i < at.size(); ++i) {
    Vector moved = at;
    const double step = 1e-6 * std::max(1e-2, std::abs(at[i]));
    moved[i] = at[i] + step <= bounds.upper[i] ? at[i] + step : at[i] - step;
    rows[i] = residuals(moved);
    const double by = moved[i] - at[i];
    for (std::size_t j = 0; j < here.size(); ++j) rows[i][j] = (rows[i][j] - here[j]) / by;
  }
  return rows;
}

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// The damped Gauss-Newton step of the free unknowns; 0 for those at their bound.
std::optional<Vector> damped_step(const Matrix& jacobian, const Vector& here, const Vector& at, const Bounds& bounds,
                                  double damping) {
  std::vector<std::size_t> free;
  Vector gradient(at.size());
  for (std::size_t i = 0; i < at.size(); ++i) {
    gradient[i] = dot(jacobian[i], here);
    const bool pressed = (at[i] <= bounds.lower[i] && gradient[i] > 0) || (at[i] >= bounds.upper[i] && gradient[i] < 0);
    if (!pressed && bounds.upper[i] > bounds.lower[i]) free.push_back(i);
  }
  Matrix normal(free.size(), Vector(free.size()));
  Vector right(free.size());
  for (std::size_t i = 0; i < free.size(); ++i) {
    for (std::size_t j = 0; j <= i; ++j) normal[i][j] = normal[j][i] = dot(jacobian[free[i]], jacobian[free[j]]);
    normal[i][i] += damping * std::max(normal[i][i], 1e-12);
    right[i] = -gradient[free[i]];
  }
  const auto solved = solve_positive_definite(std::move(normal), std::move(right));
  if (!solved) return std::nullopt;
  Vector step(at.size());
  for (std::size_t i = 0; i < free.size(); ++i) step[free[i]] = (*solved)[i];
  return step;
}

Vector sum(const Vector& a, const Vector& b, double factor) {
  Vector result = a;
  for (std::size_t i = 0; i < a.size(); ++i) result[i] += factor * b[i];
  return result;
}

}  // namespace

std::optional<Matrix> cholesky(Matrix a) {
  const std::size_t n = a.size();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double value = a[i][j];
      for (std::size_t k = 0; k < j; ++k) value -= a[i][k] * a[j][k];
      if (i != j) {
        a[i][j] = value / a[j][j];
      } else if (value > 0 && std::isfinite(value)) {
        a[i][i] = std::sqrt(value);
      } else {
        return std::nullopt;
      }
    }
    std::fill(a[i].begin() + static_cast<std::ptrdiff_t>(i) + 1, a[i].end(), 0.0);
  }
  return a;
}

std::optional<Vector> solve_positive_definite(Matrix a, Vector b) {
  const auto lower = cholesky(std::move(a));
  if (!lower) return std::nullopt;
  const Matrix& l = *lower;
  const std::size_t n = b.size();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= l[i][k] * b[k];
    b[i] /= l[i][i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) b[i] -= l[k][i] * b[k];
    b[i] /= l[i][i];
  }
  return b;
}

Vector linear_least_squares(const Matrix& rows, const Vector& y, const Vector& weights) {
  const std::size_t unknowns = rows.empty() ? 0 : rows.front().size();
  Vector scale(unknowns);
  for (std::size_t i = 0; i < unknowns; ++i) {
    for (std::size_t r = 0; r < rows.size(); ++r) scale[i] += std::pow(weights[r] * rows[r][i], 2);
    scale[i] = scale[i] > 0 ? 1 / std::sqrt(scale[i]) : 0;
  }
  Matrix normal(unknowns, Vector(unknowns));
  Vector right(unknowns);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t i = 0; i < unknowns; ++i) {
      const double value = weights[r] * weights[r] * rows[r][i] * scale[i];
      right[i] += value * y[r];
      for (std::size_t j = 0; j < unknowns; ++j) normal[i][j] += value * rows[r][j] * scale[j];
    }
  }
  // So small that it decides only between columns that the rows cannot distinguish.
  for (std::size_t i = 0; i < unknowns; ++i) normal[i][i] += 1e-10;
  Vector solved = solve_positive_definite(std::move(normal), std::move(right)).value_or(Vector(unknowns));
  for (std::size_t i = 0; i < unknowns; ++i) solved[i] *= scale[i];
  return solved;
}

Minimum least_squares(const std::function<Vector(const Vector&)>& residuals, const Vector& start, const Bounds& bounds,
                      int max_iterations) {
  Minimum best{.at = within(start, bounds)};
  Vector here = residuals(best.at);
  best.value = half_square(here);
  double damping = 1e-3;
  for (; best.iterations < max_iterations; ++best.iterations) {
    const Matrix jacobian = derivatives(residuals, best.at, here, bounds);
    bool moved = false;
    double gain = 0;
    for (; !moved && damping < 1e12; damping *= moved ? 0.1 : 4) {
      const auto step = damped_step(jacobian, here, best.at, bounds, damping);
      if (!step) continue;
      const Vector next = within(sum(best.at, *step, 1), bounds);
      Vector there = residuals(next);
      const double value = half_square(there);
      if (!(value < best.value)) continue;
      gain = best.value - value;
      best.at = next;
      best.value = value;
      here = std::move(there);
      moved = true;
    }
    damping = std::max(damping, 1e-12);
    if (!moved || gain <= 1e-10 * (best.value + 1e-300)) break;
  }
  return best;
}

Minimum nelder_mead(const std::function<double(const Vector&)>& objective, const Vector& start, const Bounds& bounds,
                    double step, int max_iterations) {
  struct Corner {
    Vector at;
    double value;
  };
  const auto evaluated = [&](const Vector& point) {
    Corner corner{within(point, bounds), 0};
    corner.value = objective(corner.at);
    if (!std::isfinite(corner.value)) corner.value = INFINITY;
    return corner;
  };
  std::vector<Corner> simplex{evaluated(start)};
  for (std::size_t i = 0; i < start.size(); ++i) {
    Vector moved = simplex.front().at;
    moved[i] += moved[i] + step <= bounds.upper[i] ? step : -step;
    simplex.push_back(evaluated(moved));
  }
  const auto better = [](const Corner& a, const Corner& b) { return a.value < b.value; };
  int iteration = 0;
  for (; iteration < max_iterations; ++iteration) {
    std::stable_sort(simplex.begin(), simplex.end(), better);
    Corner& worst = simplex.back();
    const Corner& best = simplex.front();
    if (worst.value - best.value <= 1e-12 * (std::abs(best.value) + 1e-12)) break;
    Vector middle(start.size());
    for (std::size_t c = 0; c + 1 < simplex.size(); ++c)
      middle = sum(middle, simplex[c].at, 1 / static_cast<double>(simplex.size() - 1));
    const Vector away = sum(middle, worst.at, -1);
    Corner reflected = evaluated(sum(middle, away, 1));
    if (reflected.value < best.value) {
      Corner expanded = evaluated(sum(middle, away, 2));
      worst = expanded.value < reflected.value ? expanded : reflected;
    } else if (reflected.value < simplex[simplex.size() - 2].value) {
      worst = reflected;
    } else if (Corner inside = evaluated(sum(middle, away, -0.5)); inside.value < worst.value) {
      worst = inside;
    } else {
      for (std::size_t c = 1; c < simplex.size(); ++c)
        simplex[c] = evaluated(sum(sum(simplex[c].at, simplex[c].at, -0.5), best.at, 0.5));
    }
  }
  const Corner& best = *std::min_element(simplex.begin(), simplex.end(), better);
  return {best.at, best.value, iteration};
}

}  // namespace elastictrain::heuristics
