// What stands behind the name of a file that is written as a whole.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>

#include "cli/output/whole_file.h"
#include "tests/support/temporary_directory.h"

namespace elastictrain::cli {
namespace {

namespace fs = std::filesystem;
using test::read_file;

TEST_CASE_FIXTURE(test::TemporaryDirectory,
                  "a file that is written as a whole is replaced, and nothing is left beside it") {
  const std::string name = file("page.html");
  REQUIRE(!write_whole_file(name, "one"));
  const auto before = fs::hard_link_count(name);
  fs::create_hard_link(name, file("old"));
  REQUIRE(!write_whole_file(name, "two"));
  CHECK(before == 1);
  CHECK(read_file(name) == "two");
  CHECK(read_file(file("old")) == "one");
  CHECK(!fs::exists(name + ".new"));
  remove_whole_file(name);
  CHECK(!fs::exists(name));
}

TEST_CASE_FIXTURE(test::TemporaryDirectory, "a pipe or a device is written to and stays what it is") {
  const std::string name = file("pipe");
  REQUIRE(::mkfifo(name.c_str(), 0600) == 0);
  const int reader = ::open(name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  REQUIRE(!write_whole_file(name, "one"));
  std::array<char, 8> text{};
  CHECK(::read(reader, text.data(), text.size()) == 3);
  ::close(reader);
  CHECK(write_whole_file(name, "nobody reads it") == std::errc::no_such_device_or_address);
  remove_whole_file(name);
  CHECK(fs::is_fifo(name));
}

TEST_CASE_FIXTURE(test::TemporaryDirectory, "behind a link its target is replaced") {
  const std::string name = file("link");
  fs::create_directory(file("elsewhere"));
  REQUIRE(!write_whole_file(file("elsewhere/page"), "one"));
  fs::create_symlink(file("elsewhere/page"), name);
  REQUIRE(!write_whole_file(name, "two"));
  CHECK(fs::is_symlink(name));
  CHECK(read_file(file("elsewhere/page")) == "two");
}

TEST_CASE_FIXTURE(test::TemporaryDirectory, "what cannot be written says why, and leaves nothing") {
  CHECK(write_whole_file(file("missing/page"), "one") == std::errc::no_such_file_or_directory);
  CHECK(write_whole_file(path, "one") == std::errc::is_a_directory);
  CHECK(fs::is_empty(path));
}

}  // namespace
}  // namespace elastictrain::cli
