// Purpose: hosts by the number of their free slots, with the lowest host of a number found in O(1) amortized.
#pragma once

#include <cstdint>
#include <vector>

namespace elastictrain::heuristics::placement {

class FreeHosts {
 public:
  explicit FreeHosts(const std::vector<std::uint32_t>& host_slots);

  std::uint32_t free(std::uint32_t host) const { return free_[host]; }
  std::uint32_t most() const { return static_cast<std::uint32_t>(by_free_.size()) - 1; }
  bool spanned(std::uint32_t host) const { return spanned_[host]; }
  // A job that spans hosts uses this one, or does no longer.
  void set_spanned(std::uint32_t host, bool spanned);
  void take(std::uint32_t host, std::uint32_t slots);
  void give(std::uint32_t host, std::uint32_t slots);
  // A host with the least free slots, at least `slots`; with `unspanned` only one that no spanning job uses. kNoHost if
  // there is none.
  std::uint32_t best_fit(std::uint32_t slots, bool unspanned);

  static constexpr std::uint32_t kNoHost = UINT32_MAX;

 private:
  struct Bucket {
    std::vector<std::uint32_t> heap;  // of hosts, the lowest first; may name some that have left it
  };

  void list(std::uint32_t host);
  std::uint32_t lowest(Bucket& bucket, std::uint32_t free, bool unspanned);

  std::vector<std::uint32_t> free_;
  std::vector<bool> spanned_;
  std::vector<Bucket> by_free_, by_free_spanned_;
};

}  // namespace elastictrain::heuristics::placement
