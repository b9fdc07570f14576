// Purpose: words and texts made fit to be shown: control characters become visible, words are quoted as for a shell.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

// Text of programs, hosts and files, made harmless for a terminal: control characters, marks that change the
// direction of writing, and the line separators of Unicode become visible. Everything that the commands print passes
// through here, except the lines of workers, which are their own, and our own colours. Thread: any, one at a time for a
// stream.

namespace elastictrain::cli {

enum class Lines { kSeveral, kOne };  // kOne: line ends and tabs become visible, too

// "\x1b" for ASCII, "\u009b" for others, so that JSON stays JSON.
std::string printable(std::string_view text, Lines lines = Lines::kSeveral);

// While it lives, what is written to the stream passes through printable(). The stream must outlive it.
class PrintableStream {
 public:
  explicit PrintableStream(std::ostream& stream);
  ~PrintableStream();
  PrintableStream(const PrintableStream&) = delete;
  PrintableStream& operator=(const PrintableStream&) = delete;

 private:
  std::ostream& stream_;
  std::streambuf* const original_;
  std::unique_ptr<std::streambuf> filter_;
};

// Words as a shell would need them. For display only: nothing passes this text to a shell. Pure.

std::string shell_text(const std::vector<std::string>& words);

}  // namespace elastictrain::cli
