#include "launcher/agent/worker.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temporary_directory.h"

namespace launcher = elastictrain::launcher;
using ErrorLines = std::vector<std::string>;

namespace {

struct ErrorFile {
  ErrorLines read(const std::string& text) { return launcher::read_error_file(directory.write("error.json", text)); }
  std::string path() const { return directory.file("error.json"); }
  elastictrain::test::TemporaryDirectory directory;
};

}  // namespace

TEST_CASE("torch's error file gives its message, whichever of its shapes it has") {
  ErrorFile file;
  CHECK(file.read(R"({"message": {"message": "RuntimeError: out of memory", "extraInfo": {"timestamp": "1"}}})") ==
        ErrorLines{"RuntimeError: out of memory"});
  CHECK(file.read(R"({"message": "ValueError: x\nat line 3"})") == ErrorLines{"ValueError: x", "at line 3"});
}

TEST_CASE("what is not torch's JSON is taken as text") {
  ErrorFile file;
  CHECK(file.read("plain words\r\n\nmore") == ErrorLines{"plain words", "more"});
  CHECK(file.read(R"({"message": 7})") == ErrorLines{R"({"message": 7})"});
  CHECK(file.read(R"({"message": {"message")") == ErrorLines{R"({"message": {"message")"});
  CHECK(file.read("[1, 2]") == ErrorLines{"[1, 2]"});
  CHECK(file.read("").empty());
}

TEST_CASE("a missing file, a directory or a FIFO gives no lines and is not waited for") {
  ErrorFile file;
  CHECK(launcher::read_error_file(file.path()).empty());
  CHECK(launcher::read_error_file(file.directory.path).empty());
  REQUIRE(::mkfifo(file.path().c_str(), 0600) == 0);
  CHECK(launcher::read_error_file(file.path()).empty());
}

TEST_CASE("a huge error file costs bounded lines of bounded length") {
  ErrorFile file;
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "line\n";
  CHECK(file.read(text).size() == 10);
  const auto lines = file.read(std::string(5'000'000, 'x'));
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].size() == 1000);
}
