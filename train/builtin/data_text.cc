#include "train/builtin/data_text.h"

#include <utility>

#include "train/builtin/data_file.h"

namespace elastictrain::train {

Vocabulary::Vocabulary(std::string_view text) {
  index_.fill(-1);
  for (const char c : text) index_[static_cast<std::uint8_t>(c)] = 0;
  for (std::int16_t& index : index_) {
    if (index == 0) index = static_cast<std::int16_t>(size_++);
  }
}

Result<std::vector<std::uint8_t>> Vocabulary::encode(std::string_view text, std::string_view name) const {
  std::vector<std::uint8_t> indices;
  indices.reserve(text.size());
  for (const char c : text) {
    const std::int16_t index = index_[static_cast<std::uint8_t>(c)];
    if (index < 0) {
      return error_at_offset(name, indices.size(),
                             "byte " + std::to_string(static_cast<std::uint8_t>(c)) +
                                 " does not occur in the training text; use a test text of the same kind");
    }
    indices.push_back(static_cast<std::uint8_t>(index));
  }
  return indices;
}

Result<TextTask> make_text_task(std::string_view train, std::string_view train_name, std::string_view test,
                                std::string_view test_name) {
  const Vocabulary vocabulary(train);
  if (test.empty()) {
    const std::size_t kept = train.size() - train.size() / 10;
    test = train.substr(kept);
    test_name = train_name;
    train = train.substr(0, kept);
  }
  Result<std::vector<std::uint8_t>> train_indices = vocabulary.encode(train, train_name);
  if (!train_indices) return train_indices.error();
  Result<std::vector<std::uint8_t>> test_indices = vocabulary.encode(test, test_name);
  if (!test_indices) return test_indices.error();
  return TextTask{vocabulary.size(), *std::move(train_indices), *std::move(test_indices)};
}

}  // namespace elastictrain::train
