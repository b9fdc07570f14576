// The claim on a directory, and the socket in it. What a run says about it is in run_directory_test.cc.
#include "supervisor/transport/owned_directory.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <asio/io_context.hpp>
#include <fstream>
#include <optional>
#include <string>

#include "supervisor/transport/local_listener.h"
#include "tests/support/temporary_directory.h"

namespace elastictrain::transport {
namespace {

mode_t mode_of_file(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 ? found.st_mode & 0777 : 0;
}

}  // namespace

TEST_CASE("a directory is claimed by one process at a time") {
  const test::TemporaryDirectory root;
  const DirectoryRequest request{root.path + "/a/b", 0755, "socket", "choose another"};
  CHECK(OwnedDirectory::look(request.path) == DirectoryClaim::kNone);
  {
    const auto claimed = OwnedDirectory::claim(request);
    REQUIRE(claimed.ok());
    CHECK(claimed->path() == request.path);
    CHECK(mode_of_file(request.path) == 0755);
    CHECK(mode_of_file(root.path + "/a") == 0700);
    CHECK(OwnedDirectory::look(request.path) == DirectoryClaim::kHeld);
    CHECK(OwnedDirectory::claim(request).error().code == ErrorCode::kUnavailable);
  }
  CHECK(OwnedDirectory::look(request.path) == DirectoryClaim::kNone);
  std::ofstream(request.path + "/socket") << "of one that is gone";
  CHECK(OwnedDirectory::claim(request).ok());
  CHECK(::access((request.path + "/socket").c_str(), F_OK) != 0);
}

// As a file system without locks looks: the second process may lock, too.
TEST_CASE("a directory whose lock says nothing is taken while somebody listens in it") {
  const test::TemporaryDirectory root;
  const DirectoryRequest request{root.path + "/d", 0700, "socket", "choose another"};
  REQUIRE(OwnedDirectory::claim(request).ok());
  asio::io_context io;
  auto listener = LocalListener::listen(io, request.path + "/socket", 0600, [](auto) {});
  REQUIRE(listener.ok());
  CHECK(OwnedDirectory::claim(request).error().code == ErrorCode::kUnavailable);
  CHECK(connect_local(request.path + "/socket").ok());
  listener->close();
  CHECK(OwnedDirectory::claim(request).ok());
}

TEST_CASE("what is no directory of this user is refused with what to do") {
  const test::TemporaryDirectory root;
  const DirectoryRequest file{root.path + "/file", 0700, "socket", "choose another"};
  std::ofstream(file.path) << "x";
  CHECK(OwnedDirectory::claim(file).error().code == ErrorCode::kRefused);
  CHECK(OwnedDirectory::claim(file).error().message == file.path + " is not a directory; remove it, or choose another");
  if (::geteuid() != 0) return;
  const DirectoryRequest foreign{root.path + "/foreign", 0700, "socket", "choose another"};
  REQUIRE(::mkdir(foreign.path.c_str(), 0700) == 0);
  REQUIRE(::chown(foreign.path.c_str(), 12345, 12345) == 0);
  CHECK(OwnedDirectory::claim(foreign).error().code == ErrorCode::kDenied);
  CHECK(OwnedDirectory::claim(foreign).error().message == foreign.path + " belongs to user 12345; choose another");
}

TEST_CASE("a listener hands over what connects, and is silent once it is closed") {
  const test::TemporaryDirectory root;
  const std::string path = root.path + "/socket";
  asio::io_context io;
  int accepted = 0;
  {
    auto listener = LocalListener::listen(io, path, 0600, [&accepted](auto) { ++accepted; });
    REQUIRE(listener.ok());
    CHECK(mode_of_file(path) == 0600);
    CHECK(LocalListener::listen(io, path, 0600, [](auto) {}).error().code == ErrorCode::kIo);
    const auto first = connect_local(path);
    const auto second = connect_local(path);
    REQUIRE(second.ok());
    while (accepted < 2) io.run_one();
    REQUIRE(connect_local(path).ok());  // not accepted yet
  }
  io.run();
  CHECK(accepted == 2);
  CHECK(connect_local(path).error().code == ErrorCode::kUnavailable);
}

}  // namespace elastictrain::transport
