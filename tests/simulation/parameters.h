// Purpose: the model's substitute for a program's parameters: a chain of hashes over the steps and the samples that
// counted in each. Two workers with equal chains have used the same samples in the same steps; a chain therefore checks
// bit-identity and exactly-once at the same time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "supervisor/protocol/ids.h"
#include "train/state/progress.h"
#include "train/state/sampler.h"

namespace elastictrain::simulation {

using Chain = std::uint64_t;
using Intervals = std::vector<state::Interval>;

// The samples that one committed step counted.
struct Counted {
  std::uint64_t epoch = 0;
  Intervals positions;  // ascending, disjoint, never adjacent
  bool operator==(const Counted&) const = default;
};

// The data that a donor transfers.
struct Snapshot {
  Chain chain = 0;
  state::Progress progress;
  std::vector<state::WorkerShare> next_shares;
};

inline std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

inline Intervals merged(Intervals list) {
  std::erase_if(list, [](const state::Interval& piece) { return piece.count == 0; });
  std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Intervals out;
  for (const state::Interval& piece : list) {
    if (!out.empty() && out.back().first + out.back().count == piece.first) {
      out.back().count += piece.count;
    } else {
      out.push_back(piece);
    }
  }
  return out;
}

inline std::uint64_t size_of(const Intervals& list) {
  std::uint64_t size = 0;
  for (const state::Interval& piece : list) size += piece.count;
  return size;
}

inline Chain chain_after(Chain before, Step step, const Counted& counted) {
  Chain chain = mixed(before + step * 0x9e3779b97f4a7c15ULL);
  chain = mixed(chain + counted.epoch + 1);
  for (const state::Interval& piece : counted.positions) chain = mixed(mixed(chain + piece.first) + piece.count);
  return chain;
}

inline std::string text_of(const Intervals& list) {
  std::string text;
  for (const state::Interval& piece : list) {
    text += (text.empty() ? "" : ",") + std::to_string(piece.first) + "+" + std::to_string(piece.count);
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace elastictrain::simulation
