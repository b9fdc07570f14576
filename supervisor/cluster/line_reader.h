// Purpose: reads the fields of a message from another process, each within its bounds, and keeps the first thing that
// is wrong as a text for the sender. Fields that are wrong or missing give a harmless value, so that a reader goes on.
//
// Ownership: borrows the JSON value and the text. Thread: any, one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace elastictrain::cluster {

class LineReader {
 public:
  using Use = std::function<void(LineReader&)>;

  // `path`: where this object is in the message, "" at the top.
  LineReader(const nlohmann::json& object, std::string path, std::string& problem)
      : object_(object), path_(std::move(path)), problem_(problem) {}

  bool ok() const { return problem_.empty(); }
  bool is_null(const char* name) const;  // or missing

  // A field without `otherwise` must be there. Numbers are whole and within [least, most].
  std::uint64_t number(const char* name, std::uint64_t least, std::uint64_t most,
                       std::optional<std::uint64_t> otherwise = std::nullopt);
  std::uint32_t whole(const char* name, std::uint32_t least, std::uint32_t most,
                      std::optional<std::uint32_t> otherwise = std::nullopt);
  double real(const char* name, double least, double most);
  bool flag(const char* name);         // missing: false
  std::string name(const char* name);  // not empty, at most kMaxNameBytes, printable
  std::string text(const char* name);  // missing: empty; at most kMaxTextBytes, printable
  std::vector<std::uint32_t> numbers(const char* name, std::size_t max_size, std::uint32_t most);
  std::vector<std::string> names(const char* name, std::size_t max_size);  // missing: none
  void each(const char* name, std::size_t max_size, const Use& use);       // of a list of objects; missing: none
  void object(const char* name, const Use& use);                           // missing: not called
  void required(const char* name, const Use& use);                         // an object that must be there

  void wrong(const std::string& name, const std::string& wanted);
  void unknown(const std::string& known);

 private:
  const nlohmann::json* find(const char* name) const;
  const nlohmann::json* list(const char* name, std::size_t max_size);

  const nlohmann::json& object_;
  std::string path_;
  std::string& problem_;
};

}  // namespace elastictrain::cluster
