// Purpose: text for the character language model, as indices into the characters (bytes) that occur in it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "supervisor/protocol/result.h"

namespace elastictrain::train {

class Vocabulary {
 public:
  // The bytes that occur, in ascending order.
  explicit Vocabulary(std::string_view text);

  std::size_t size() const { return size_; }

  // kInvalid at the first byte that the vocabulary lacks.
  Result<std::vector<std::uint8_t>> encode(std::string_view text, std::string_view name) const;

 private:
  std::array<std::int16_t, 256> index_;  // -1: does not occur
  std::size_t size_ = 0;
};

struct TextTask {
  std::size_t vocabulary = 0;
  std::vector<std::uint8_t> train;
  std::vector<std::uint8_t> test;
};

// Without a test text, the last tenth of the training text is held out.
Result<TextTask> make_text_task(std::string_view train, std::string_view train_name, std::string_view test,
                                std::string_view test_name);

}  // namespace elastictrain::train
