#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "supervisor/control/control_client.h"
#include "supervisor/control/control_protocol.h"
#include "supervisor/run_directory.h"
#include "supervisor/transport/local_socket.h"
#include "tests/support/temporary_directory.h"

namespace elastictrain {
namespace {

using test::TemporaryDirectory;

mode_t mode_of(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 ? found.st_mode & 0777 : 0;
}

// What the record of a supervisor on another machine is worth, by the lock beside it.
TEST_CASE(
    "a supervisor on another machine is there if it holds the lock, gone if nobody does, and else it is not known") {
  TemporaryDirectory root;
  const std::string path = root.path + "/job";
  auto claimed = RunDirectory::claim(path);
  REQUIRE(claimed.ok());
  CHECK_FALSE(supervisor_elsewhere(path));
  std::ofstream(path + "/supervisor.json") << R"({"host":"node3","pid":12,"slurm_job":""})";
  REQUIRE(supervisor_held_elsewhere(path));
  CHECK(describe_elsewhere("job", *supervisor_held_elsewhere(path)).find("is supervised on node3 (process 12)") !=
        std::string::npos);
  claimed = Error{ErrorCode::kUnavailable, ""};
  CHECK_FALSE(supervisor_elsewhere(path));
  std::filesystem::remove(path + "/lock");
  std::filesystem::create_directory(path + "/lock");  // of which no lock can be asked
  CHECK_FALSE(supervisor_held_elsewhere(path));
  REQUIRE(supervisor_elsewhere(path));
  CHECK(describe_elsewhere("job", *supervisor_elsewhere(path)).find("take it over with") != std::string::npos);
}

TEST_CASE("a run directory is made with its parents, for its owner only") {
  TemporaryDirectory root;
  auto claimed = RunDirectory::claim(root.path + "/a/b/job");
  REQUIRE(claimed.ok());
  CHECK(mode_of(root.path + "/a/b/job") == 0700);
  CHECK(mode_of(root.path + "/a") == 0700);
  CHECK(claimed->journal_path() == root.path + "/a/b/job/journal.jsonl");
}

TEST_CASE("a directory that others may read is closed to them") {
  TemporaryDirectory root;
  std::filesystem::create_directory(root.path + "/job");
  ::chmod((root.path + "/job").c_str(), 0755);
  REQUIRE(RunDirectory::claim(root.path + "/job").ok());
  CHECK(mode_of(root.path + "/job") == 0700);
}

TEST_CASE("a claim excludes a second one until it ends, and a dead run's socket is removed") {
  TemporaryDirectory root;
  const std::string path = root.path + "/job";
  {
    auto first = RunDirectory::claim(path);
    REQUIRE(first.ok());
    const auto second = RunDirectory::claim(path);
    REQUIRE(!second.ok());
    CHECK(second.error().message.find("'job' is already running") != std::string::npos);
  }
  std::ofstream(path + "/control.sock") << "stale";
  REQUIRE(RunDirectory::claim(path).ok());
  CHECK(!std::filesystem::exists(path + "/control.sock"));
}

TEST_CASE("a link or a file in the place of a run directory is refused") {
  TemporaryDirectory root;
  std::filesystem::create_directory(root.path + "/elsewhere");
  std::filesystem::create_directory_symlink(root.path + "/elsewhere", root.path + "/link");
  CHECK(!RunDirectory::claim(root.path + "/link").ok());
  std::ofstream(root.path + "/file") << "x";
  CHECK(!RunDirectory::claim(root.path + "/file").ok());
}

TEST_CASE("names that are not plain are refused") {
  for (const char* good : {"job", "a", "my-job_2.final", "7"}) CHECK(check_run_name(good).ok());
  for (const char* bad : {"", ".", "..", "a/b", "-x", "a b", "ü", "a\n"}) CHECK(!check_run_name(bad).ok());
  CHECK(!check_run_name(std::string(65, 'a')).ok());
}

TEST_CASE("the state directory follows the environment in order") {
  const char* home = std::getenv("HOME");
  const std::string before = home == nullptr ? "" : home;
  ::setenv("HOME", "/home/somebody", 1);
  ::setenv("XDG_STATE_HOME", "/xdg", 1);
  ::setenv("ELASTICTRAIN_STATE_DIR", "/chosen", 1);
  CHECK(*state_directory() == "/chosen");
  CHECK(*run_directory_of("job") == "/chosen/job");
  ::setenv("ELASTICTRAIN_STATE_DIR", "relative", 1);
  CHECK(!state_directory().ok());
  ::unsetenv("ELASTICTRAIN_STATE_DIR");
  CHECK(*state_directory() == "/xdg/elastictrain");
  ::unsetenv("XDG_STATE_HOME");
  CHECK(*state_directory() == "/home/somebody/.local/state/elastictrain");
  ::setenv("HOME", before.c_str(), 1);
}

TEST_CASE("a request to a missing run returns an error") {
  TemporaryDirectory root;
  const auto answer = control::ask(root.path + "/job", "{}", Millis(1'000));
  REQUIRE(!answer.ok());
  CHECK(answer.error().message.find("no run named 'job' is running") != std::string::npos);
  CHECK(control::list_runs(root.path).empty());
  CHECK(control::list_runs(root.path + "/missing").empty());
}

TEST_CASE("a run that does not answer is given up at the deadline, and one that hangs up at once") {
  TemporaryDirectory root;
  const auto address = transport::LocalAddress::of(root.path + "/" + control::kSocketName);
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(::bind(listener, address->generic(), address->length()) == 0);
  REQUIRE(::listen(listener, 4) == 0);
  const auto silent = control::ask(root.path, "{}", Millis(50));
  REQUIRE(!silent.ok());
  CHECK(silent.error().code == ErrorCode::kTimeout);
  ::close(listener);
  CHECK(!control::is_live(root.path));
}

TEST_CASE("a socket path beyond the system's limit works all the same") {
  TemporaryDirectory root;
  const std::string path = root.path + "/" + std::string(100, 'd') + "/" + std::string(60, 'j');
  auto claimed = RunDirectory::claim(path);
  REQUIRE(claimed.ok());
  const auto address = transport::LocalAddress::of(path + "/" + control::kSocketName);
  REQUIRE(address.ok());
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(::bind(listener, address->generic(), address->length()) == 0);
  REQUIRE(::listen(listener, 4) == 0);
  CHECK(control::is_live(path));
  CHECK(control::list_runs(root.path + "/" + std::string(100, 'd')) == std::vector<std::string>{std::string(60, 'j')});
  ::close(listener);
}

}  // namespace
}  // namespace elastictrain
