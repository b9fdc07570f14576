// Purpose: the throughput of one job at each number of slots.
//
// Two forms of one measured curve. *As it is*: lines between the measured counts, constant beyond the last one, and a
// line from 0 below the first; fixed-size policies run a job on it. *Best*: the running maximum of that, which elastic
// policies use, up to the first count that reaches the maximum (the cap) and never beyond 64 slots. Between whole
// counts the throughput is interpolated, not the step time: lines of step time are convex in throughput and stall
// policies that give one slot at a time.
//
// Where it was measured, a curve also knows what a job loses with the same slots on more hosts.
//
// Immutable. Rates in units of work per second (iterations, samples).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace elastictrain::heuristics::sharing {

inline constexpr std::uint32_t kMaxElasticSlots = 64;

class Curve {
 public:
  struct Point {
    std::uint32_t slots = 0;
    double rate = 0;
  };

  // By slots and hosts: the part of the throughput that is left, of that of `points`.
  using OnHosts = std::map<std::uint32_t, std::map<std::uint32_t, double>>;

  // `points`: at least one; counts above 0, rising; rates above 0.
  explicit Curve(std::vector<Point> points, std::string name = {}, OnHosts on_hosts = {});

  const std::string& name() const { return name_; }
  // False if only one count was measured: then there is nothing to decide a size by.
  bool elastic() const { return elastic_; }
  std::uint32_t cap() const { return cap_; }

  double as_is(std::uint32_t slots) const;
  // Whole counts up to the cap.
  double best(std::uint32_t slots) const { return best_[slots]; }
  bool knows_hosts() const { return !on_hosts_.empty(); }
  // Of its throughput with so many slots, the part that is left on so many hosts: 1 on fewer than were measured, as
  // with the most that were measured on more. Nothing: not measured with so many slots.
  std::optional<double> on_hosts(std::uint32_t slots, std::uint32_t hosts) const;
  // Any count: lines between whole counts, constant from the cap on.
  double best_at(double slots) const;
  // From a whole count below the cap: the larger one up to which each slot adds most in the mean. The next one where
  // the curve is concave, the end of the step where it has steps.
  std::uint32_t next_corner(std::uint32_t slots) const { return next_corner_[slots]; }
  // 1 / best(slots), infinite at 0.
  double inverse(std::uint32_t slots) const { return inverse_[slots]; }
  // What one more slot adds, relative to the throughput with it and without it. 0 at the cap, infinite without slots.
  double gain_with(std::uint32_t slots) const { return gain_with_[slots]; }
  double gain_without(std::uint32_t slots) const { return gain_without_[slots]; }

 private:
  void fill_as_is(const std::vector<Point>& points);
  void fill_best();
  void fill_corners();

  std::string name_;
  OnHosts on_hosts_;
  bool elastic_ = false;
  std::uint32_t cap_ = 0;
  std::vector<std::uint32_t> next_corner_;                                 // by count
  std::vector<double> as_is_, best_, inverse_, gain_with_, gain_without_;  // by count
};

}  // namespace elastictrain::heuristics::sharing
