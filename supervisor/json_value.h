// Purpose: builds the fields of a Journal action, whose values are already JSON text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace elastictrain::core {

// A JSON string with its quotes; bytes that are not printable ASCII or valid UTF-8 lead bytes are escaped.
std::string json_text(std::string_view text);

class Fields {
 public:
  using List = std::vector<std::pair<std::string, std::string>>;

  Fields& text(std::string name, std::string_view value);
  Fields& number(std::string name, std::uint64_t value);
  Fields& integer(std::string name, std::int64_t value);
  Fields& real(std::string name, double value);
  Fields& flag(std::string name, bool value);
  Fields& numbers(std::string name, const std::vector<std::uint64_t>& values);
  Fields& texts(std::string name, const std::vector<std::string>& values);

  List take() && { return std::move(list_); }

 private:
  List list_;
};

}  // namespace elastictrain::core
