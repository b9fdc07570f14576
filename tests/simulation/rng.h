// Purpose: the random source of a simulated run, from one seed, equal with every compiler and library.
// Thread: one.
#pragma once

#include <cstdint>

#include "supervisor/protocol/ids.h"

namespace elastictrain::simulation {

using Micros = std::chrono::microseconds;

class Rng {
 public:
  // Mixed, so that the numbers of one seed are not those of the next seed, shifted by one.
  explicit Rng(std::uint64_t seed) : state_(mix(seed + 0x632be59bd9b4e019ULL)) {}

  std::uint64_t next() { return mix(state_ += 0x9e3779b97f4a7c15ULL); }
  // [0, below); 0 when `below` is 0.
  std::uint32_t below(std::uint32_t below) { return below == 0 ? 0 : static_cast<std::uint32_t>(next() % below); }
  // [least, most]
  std::uint32_t between(std::uint32_t min, std::uint32_t max) { return min + below(max - min + 1); }
  Micros time(Micros min, Micros max) {
    return min + Micros(static_cast<std::int64_t>(next() % static_cast<std::uint64_t>((max - min).count() + 1)));
  }
  bool chance(double probability) { return static_cast<double>(next() >> 11) * 0x1.0p-53 < probability; }
  template <class List>
  auto& one_of(List& list) {
    return list[below(static_cast<std::uint32_t>(list.size()))];
  }

 private:
  static std::uint64_t mix(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  }

  std::uint64_t state_;
};

}  // namespace elastictrain::simulation
