// Purpose: changes an input of a fuzz target at random, as libFuzzer does without its coverage: bits, bytes, numbers,
// pieces moved, doubled, cut off, or taken from another input. The same seed gives the same changes. Pure.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace elastictrain::fuzz {

class Mutator {
 public:
  // `inputs`: at least one.
  Mutator(const std::vector<std::string>& inputs, std::uint64_t seed) : inputs_(inputs), rng_(seed) {}

  // The next input, of at most kMaxBytes.
  std::string next();

  static constexpr std::size_t kMaxBytes = 64 * 1024;

 private:
  std::size_t below(std::size_t end) { return end == 0 ? 0 : rng_() % end; }
  void change(std::string& input);
  void change_bytes(std::string& input);
  void move_piece(std::string& input);
  void change_number(std::string& input);
  void take_piece_of_another(std::string& input);

  const std::vector<std::string>& inputs_;
  std::mt19937_64 rng_;
};

}  // namespace elastictrain::fuzz
