#include "tests/fuzz/mutator.h"

#include <array>
#include <cctype>
#include <string_view>

namespace elastictrain::fuzz {
namespace {

constexpr std::size_t kMaxChanges = 6;
constexpr std::size_t kLongestPiece = 64;
constexpr std::array<std::string_view, 14> kNumbers = {"0",
                                                       "-1",
                                                       "1",
                                                       "4294967295",
                                                       "4294967296",
                                                       "9223372036854775807",
                                                       "18446744073709551615",
                                                       "-9223372036854775808",
                                                       "1e9",
                                                       "1e309",
                                                       "-1e-309",
                                                       "nan",
                                                       "0x7f",
                                                       "00000000000000000000000000000001"};
constexpr std::array<std::string_view, 12> kTexts = {
    "\n", std::string_view("\0", 1), "\"", "{", "[", "}", "]", ",", "\\u0000", "\xff", "null", "/"};

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

}  // namespace

std::string Mutator::next() {
  std::string input = inputs_[below(inputs_.size())];
  for (std::size_t left = 1 + below(kMaxChanges); left > 0; --left) change(input);
  if (input.size() > kMaxBytes) input.resize(kMaxBytes);
  return input;
}

void Mutator::change(std::string& input) {
  switch (below(4)) {
    case 0:
      return change_bytes(input);
    case 1:
      return move_piece(input);
    case 2:
      return change_number(input);
    default:
      return take_piece_of_another(input);
  }
}

void Mutator::change_bytes(std::string& input) {
  if (input.empty()) return;
  const std::size_t at = below(input.size());
  switch (below(3)) {
    case 0:
      input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
      return;
    case 1:
      input[at] = static_cast<char>(below(256));
      return;
    default:
      input.insert(at, kTexts[below(kTexts.size())]);
  }
}

void Mutator::move_piece(std::string& input) {
  if (input.empty()) return;
  const std::size_t at = below(input.size());
  const std::string piece = input.substr(at, 1 + below(kLongestPiece));
  switch (below(4)) {
    case 0:
      input.resize(at);
      return;
    case 1:
      input.erase(at, piece.size());
      return;
    case 2:
      input.insert(below(input.size() + 1), piece);
      return;
    default:
      for (std::size_t count = 1 + below(200); count > 0; --count) input.insert(at, piece);
  }
}

void Mutator::change_number(std::string& input) {
  std::vector<std::size_t> begins;
  for (std::size_t i = 0; i < input.size(); ++i) {
    if (is_digit(input[i]) && (i == 0 || !is_digit(input[i - 1]))) begins.push_back(i);
  }
  if (begins.empty()) return change_bytes(input);
  const std::size_t begin = begins[below(begins.size())];
  std::size_t end = begin;
  while (end < input.size() && is_digit(input[end])) ++end;
  input.replace(begin, end - begin, kNumbers[below(kNumbers.size())]);
}

void Mutator::take_piece_of_another(std::string& input) {
  const std::string& other = inputs_[below(inputs_.size())];
  if (other.empty()) return;
  const std::size_t from = below(other.size());
  input.insert(below(input.size() + 1), other.substr(from, 1 + below(4 * kLongestPiece)));
}

}  // namespace elastictrain::fuzz
