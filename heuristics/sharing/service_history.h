// Purpose: the distribution of the service that ended jobs needed, and what it predicts of a job that has needed
// `attained` so far. Pure.
//
// The Gittins index of a job is the largest, over horizons, of the chance that it ends within the horizon divided by
// what it is expected to use until then (Aalto, Ayesta, Righter 2009).
#pragma once

#include <cstddef>
#include <vector>

namespace elastictrain::heuristics::sharing {

class ServiceHistory {
 public:
  void add(double service);
  std::size_t count() const { return services_.size() + fresh_.size(); }

  // With the fixed horizon `quantum`: Pr(ends within it) / E[service until the end or the horizon]. 0 if no job that
  // has ended needed more than `attained`.
  double index(double attained, double quantum) const;
  // 1 / the Gittins index over horizons that double from `least` on; infinite where index() is 0 for all of them.
  double expected_price(double attained, double least) const;

 private:
  void merge();
  double index_from(std::size_t from, double attained, double quantum) const;

  std::vector<double> services_;    // ascending
  std::vector<double> sums_ = {0};  // of the first i
  std::vector<double> fresh_;       // not merged yet: a twentieth of the others at most
};

}  // namespace elastictrain::heuristics::sharing
