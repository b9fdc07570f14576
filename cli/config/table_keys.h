// Purpose: tables of a TOML file, read strictly by a list of their keys, and the limit of a file's depth. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/config/toml_parser.h"

// Finds names with more parts than any key has, before the parser recurses over them. Pure.

namespace elastictrain::cli {

inline constexpr std::size_t kMaxKeyParts = 32;

// The line (from 1) of the first name a.b.c… with more than kMaxKeyParts parts; strings and comments are left out.
std::optional<std::size_t> find_too_deep(std::string_view toml);

// Tables of a TOML file that is no run's config (a cluster's, a sweep's), read by a list of their keys and as
// strictly as one. Pure.
//
// Errors: every mistake, one per line, each with file:line:column and, for a name, what was probably meant.

// A key of a table: what it must be, and what takes its value; false: it is not that.
struct TableKey {
  std::string name;
  std::string wanted;
  std::function<bool(const toml::node&)> take;
};
using TableKeys = std::vector<TableKey>;

std::string range_of(std::int64_t low, std::int64_t high);  // "a whole number from 1 to 8"

// The targets must live as long as the key.
TableKey real_key(std::string name, int low, int high, double& target);
TableKey text_key(std::string name, std::string& target);
TableKey list_key(std::string name, std::vector<std::string>& target);

template <class T>
struct Inside {
  using Type = T;
};
template <class T>
struct Inside<std::optional<T>> {
  using Type = T;
};

// The target is a number, or an optional one.
template <class Number>
TableKey whole_key(std::string name, std::int64_t low, std::int64_t high, Number& target) {
  return {std::move(name), range_of(low, high), [low, high, &target](const toml::node& node) {
            const auto* value = node.as_integer();
            if (value == nullptr || value->get() < low || value->get() > high) return false;
            target = static_cast<typename Inside<Number>::Type>(value->get());
            return true;
          }};
}

template <class Flag>
TableKey flag_key(std::string name, Flag& target) {
  return {std::move(name), "true or false", [&target](const toml::node& node) {
            const auto* value = node.as_boolean();
            if (value == nullptr) return false;
            target = value->get();
            return true;
          }};
}

class TableReader {
 public:
  explicit TableReader(std::string file) : file_(std::move(file)) {}

  void complain(const std::string& what) { messages_.push_back(file_ + ": " + what); }
  void complain(const toml::source_region& region, const std::string& what);

  void read_table(const toml::table& table, const std::string& section, const TableKeys& keys);
  // `others`: names that are sections here.
  void read_key(const std::string& name, const toml::source_region& region, const toml::node& node,
                const std::string& section, const TableKeys& keys, const std::vector<std::string>& others);

  std::vector<std::string>& messages() { return messages_; }

 private:
  std::string file_;
  std::vector<std::string> messages_;
};

// Calls `read` with the parsed text, or lets `reader` complain about what cannot be parsed.
void read_toml(std::string_view text, const std::string& file_name, TableReader& reader,
               const std::function<void(const toml::table&)>& read);

}  // namespace elastictrain::cli
