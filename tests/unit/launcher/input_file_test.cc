#include "launcher/input_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>

#include "tests/support/contains.h"
#include "tests/support/temporary_directory.h"

namespace elastictrain::launcher {
namespace {

using std::chrono::milliseconds;
using test::contains;
using test::TemporaryDirectory;

TEST_CASE("a file is read to its end, and a missing one and a directory are named with the reason") {
  const TemporaryDirectory directory;
  std::ofstream(directory.file("input")) << "text\nmore";
  CHECK(*read_input_file(directory.file("input")) == "text\nmore");
  CHECK(read_input_file(directory.path).error().message == directory.path + ": cannot be read: it is a directory");
  CHECK(contains(read_input_file(directory.path + "/none").error().message, "No such file"));
}

TEST_CASE("what has no end is an error") {
  CHECK(contains(read_input_file("/dev/zero", 1 << 20).error().message, "more than 1048576 bytes"));
}

TEST_CASE("a pipe is read when somebody writes to it, and not for ever") {
  const TemporaryDirectory directory;
  REQUIRE(::mkfifo(directory.file("input").c_str(), 0600) == 0);
  CHECK(contains(read_input_file(directory.file("input"), 100, milliseconds(20)).error().message,
                 "a pipe needs a writer"));
  std::thread writer([&] { std::ofstream(directory.file("input")) << "from a pipe"; });
  CHECK(*read_input_file(directory.file("input")) == "from a pipe");
  writer.join();
}

}  // namespace
}  // namespace elastictrain::launcher
