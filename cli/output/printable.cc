#include "cli/output/printable.h"

#include <array>
#include <cstdint>
#include <cstdio>
#include <streambuf>
#include <string_view>

namespace elastictrain::cli {
namespace {

// What must not reach a terminal, at the front of `text`: its value and its size in bytes; size 0: nothing.
struct Control {
  std::uint32_t value = 0;
  std::size_t size = 0;
};

// Marks of direction, and the separators of lines and paragraphs, which some programs take for line ends.
bool changes_layout(std::uint32_t value) {
  return (value >= 0x2028 && value <= 0x202e) || (value >= 0x2066 && value <= 0x2069);
}

Control control_at(std::string_view text, Lines lines) {
  const auto byte = [&](std::size_t i) {
    return static_cast<std::uint32_t>(i < text.size() ? static_cast<unsigned char>(text[i]) : 0);
  };
  const bool is_layout = text[0] == '\n' || text[0] == '\t';
  if (byte(0) < 0x20 || byte(0) == 0x7f) return {byte(0), is_layout && lines == Lines::kSeveral ? 0U : 1U};
  if (byte(0) == 0xc2 && byte(1) >= 0x80 && byte(1) <= 0x9f) return {byte(1), 2};
  const std::uint32_t value = 0x2000 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f);
  const bool is_e2 = byte(0) == 0xe2 && (byte(1) & 0xc0) == 0x80 && (byte(2) & 0xc0) == 0x80;
  return {value, is_e2 && changes_layout(value) ? 3U : 0U};
}

// Bytes at the end of `text` that may be the beginning of a control.
std::size_t unfinished(std::string_view text) {
  if (text.ends_with('\xc2') || text.ends_with('\xe2')) return 1;
  return text.ends_with("\xe2\x80") || text.ends_with("\xe2\x81") ? 2 : 0;
}

class Filter final : public std::streambuf {
 public:
  explicit Filter(std::streambuf& target) : target_(target) {}
  ~Filter() override { pass(held_); }
  Filter(const Filter&) = delete;
  Filter& operator=(const Filter&) = delete;

 protected:
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    held_.append(text, static_cast<std::size_t>(size));
    const std::size_t later = unfinished(held_);
    const bool good = pass(std::string_view(held_).substr(0, held_.size() - later));
    held_.erase(0, held_.size() - later);
    return good ? size : 0;
  }
  int overflow(int c) override {
    if (c == traits_type::eof()) return 0;
    const char one = static_cast<char>(c);
    return xsputn(&one, 1) == 1 ? c : traits_type::eof();
  }
  int sync() override { return target_.pubsync(); }

 private:
  bool pass(std::string_view text) {
    const std::string safe = printable(text);
    return target_.sputn(safe.data(), static_cast<std::streamsize>(safe.size())) ==
           static_cast<std::streamsize>(safe.size());
  }

  std::streambuf& target_;
  std::string held_;
};

}  // namespace

std::string printable(std::string_view text, Lines lines) {
  std::string out;
  while (!text.empty()) {
    const Control control = control_at(text, lines);
    if (control.size == 0) {
      out += text[0];
      text.remove_prefix(1);
      continue;
    }
    std::array<char, 8> escaped{};
    std::snprintf(escaped.data(), escaped.size(), control.value < 0x80 ? "\\x%02x" : "\\u%04x", control.value);
    out += escaped.data();
    text.remove_prefix(control.size);
  }
  return out;
}

PrintableStream::PrintableStream(std::ostream& stream)
    : stream_(stream), original_(stream.rdbuf()), filter_(std::make_unique<Filter>(*original_)) {
  stream_.rdbuf(filter_.get());
}

// rdbuf() forgets errors of the stream.
PrintableStream::~PrintableStream() {
  stream_.flush();
  const auto state = stream_.rdstate();
  stream_.rdbuf(original_);
  stream_.clear(state);
}

namespace {

std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,@%+";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace

std::string shell_text(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + shell_word(word);
  return text;
}

}  // namespace elastictrain::cli
