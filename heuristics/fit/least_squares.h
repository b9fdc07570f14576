// Purpose: the numerical methods that fit models of step time: linear least squares, bounded nonlinear least squares
// (projected Gauss-Newton with Levenberg-Marquardt damping) and a bounded simplex search (Nelder-Mead).
//
// Pure and deterministic. For tens of unknowns and hundreds of observations: dense matrices, row by row.
#pragma once

#include <functional>
#include <optional>
#include <vector>

namespace elastictrain::heuristics {

using Vector = std::vector<double>;
using Matrix = std::vector<Vector>;  // rows

// x of A x = b with A symmetric and positive definite; nothing if it is not (up to rounding).
std::optional<Vector> solve_positive_definite(Matrix a, Vector b);

// The lower triangle L of A = L L^T; nothing if A is not positive definite.
std::optional<Matrix> cholesky(Matrix a);

// x that minimises sum of (weight * (row . x - y))^2. Columns that the rows cannot distinguish share their effect (the
// shortest solution with columns scaled to length 1), so that too few observations still give an answer.
Vector linear_least_squares(const Matrix& rows, const Vector& y, const Vector& weights);

struct Bounds {
  Vector lower;
  Vector upper;
};

struct Minimum {
  Vector at;
  double value = 0;  // half the sum of squares, or the objective itself
  int iterations = 0;
};

// A point where no direction within the bounds reduces the sum of squared residuals; derivatives by differences.
// `start` is moved into the bounds. The number of residuals must not change between calls.
Minimum least_squares(const std::function<Vector(const Vector&)>& residuals, const Vector& start, const Bounds& bounds,
                      int max_iterations = 60);

// For objectives that are not sums of squares. `step`: the size of the first simplex.
Minimum nelder_mead(const std::function<double(const Vector&)>& objective, const Vector& start, const Bounds& bounds,
                    double step = 0.1, int max_iterations = 2000);

}  // namespace elastictrain::heuristics
