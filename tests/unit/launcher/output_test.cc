#include <doctest/doctest.h>

#include "launcher/agent/output_lines.h"

using elastictrain::launcher::LineBuffer;
using elastictrain::launcher::OutputSplitter;

namespace {

struct PumpedLines {
  std::vector<std::string> all;
  OutputSplitter::LineHandler handler() {
    return [this](std::string line) { all.push_back(std::move(line)); };
  }
};

std::vector<std::string> split(const std::vector<std::string>& pieces, std::size_t max_line_bytes = 100) {
  OutputSplitter splitter(max_line_bytes);
  PumpedLines lines;
  for (const auto& piece : pieces) splitter.feed(piece, lines.handler());
  splitter.flush(lines.handler());
  return lines.all;
}

using Strings = std::vector<std::string>;

}  // namespace

TEST_CASE("lines come out whole however the bytes were cut") {
  const std::string text = "one\ntwo\n\nfour";
  CHECK(split({text}) == Strings{"one", "two", "", "four"});
  Strings bytes;
  for (const char c : text) bytes.emplace_back(1, c);
  CHECK(split(bytes) == Strings{"one", "two", "", "four"});
}

TEST_CASE("a progress bar is reduced to its last state") {
  CHECK(split({"10%\r20%\r30%\ndone\n"}) == Strings{"30%", "done"});
  CHECK(split({"10%\r", "20%", "\r"}) == Strings{"20%"});
  CHECK(split({"\r 10%", "\r 20%\n"}) == Strings{" 20%"});
}

TEST_CASE("a carriage return before the newline belongs to the line's end, also across reads") {
  CHECK(split({"one\r\ntwo\r", "\nthree"}) == Strings{"one", "two", "three"});
}

TEST_CASE("a line that is too long is cut into pieces of the bound") {
  CHECK(split({std::string(25, 'a') + "\n"}, 10) == Strings{std::string(10, 'a'), std::string(10, 'a'), "aaaaa"});
  CHECK(split({"aaaaaaaaaa\nb\n"}, 10) == Strings{"aaaaaaaaaa", "b"});
  CHECK(split({"aaaaaaa", "aaaa\n"}, 10) == Strings{"aaaaaaaaaa", "a"});
}

TEST_CASE("the splitter tells a progress bar from a prompt") {
  OutputSplitter splitter;
  PumpedLines lines;
  splitter.feed("password: ", lines.handler());
  CHECK(splitter.has_partial());
  CHECK_FALSE(splitter.partial_is_progress());
  splitter.flush(lines.handler());
  CHECK_FALSE(splitter.has_partial());
  splitter.feed("1%\r2%", lines.handler());
  CHECK(splitter.partial_is_progress());
  splitter.feed("\nnext", lines.handler());
  CHECK_FALSE(splitter.partial_is_progress());
  CHECK(lines.all == Strings{"password: ", "2%"});
  splitter.feed(" line\nbar 1\r", lines.handler());
  CHECK(splitter.partial_is_progress());
  CHECK(splitter.partial() == "bar 1");
}

TEST_CASE("a full buffer drops its oldest lines and counts them") {
  LineBuffer buffer(3 * (64 + 10));
  for (char c = 'a'; c <= 'e'; ++c) buffer.push(std::string(10, c));
  const auto batch = buffer.take(10'000);
  CHECK(batch.dropped == 2);
  CHECK(batch.lines == Strings{std::string(10, 'c'), std::string(10, 'd'), std::string(10, 'e')});
  CHECK(buffer.empty());
  CHECK(buffer.take(10).lines.empty());
}

TEST_CASE("a batch holds at least one line and otherwise keeps to its bound") {
  LineBuffer buffer(1 << 20);
  for (int i = 0; i < 4; ++i) buffer.push(std::string(100, 'x'));
  CHECK(buffer.take(1).lines.size() == 1);
  CHECK(buffer.take(2 * 164).lines.size() == 2);
  CHECK(buffer.take(1 << 20).lines.size() == 1);
}

TEST_CASE("empty lines cannot fill memory") {
  LineBuffer buffer(64 * 100);
  for (int i = 0; i < 1000; ++i) buffer.push({});
  const auto batch = buffer.take(1 << 20);
  CHECK(batch.lines.size() == 100);
  CHECK(batch.dropped == 900);
}
