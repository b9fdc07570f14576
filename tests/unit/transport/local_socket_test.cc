#include "supervisor/transport/local_socket.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "tests/support/temporary_directory.h"

namespace elastictrain::transport {
namespace {

using namespace std::chrono_literals;

OwnedDescriptor listen_at(const std::string& path, int queue = 4) {
  const auto address = LocalAddress::of(path);
  REQUIRE(address.ok());
  OwnedDescriptor listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::bind(listener.value(), address->generic(), address->length()) == 0);
  REQUIRE(::listen(listener.value(), queue) == 0);
  return listener;
}

std::chrono::steady_clock::time_point in(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

}  // namespace

TEST_CASE("a socket is reached however long the path of its directory is") {
  const test::TemporaryDirectory root;
  const std::string directory = root.path + "/" + std::string(120, 'd');
  REQUIRE(::mkdir(directory.c_str(), 0700) == 0);
  const std::string path = directory + "/socket";
  CHECK(connect_local(path).error().code == ErrorCode::kUnavailable);
  const OwnedDescriptor listener = listen_at(path);
  const auto socket = connect_local(path);
  REQUIRE(socket.ok());
  const auto peer = peer_of(socket->value());
  REQUIRE(peer);
  CHECK(peer->pid == ::getpid());
  CHECK(is_own(*peer));
  CHECK(!is_own({.uid = ::geteuid() + 1, .pid = 1}));
  CHECK(connect_local(root.path + "/" + std::string(130, 'n') + "/socket").error().code == ErrorCode::kUnavailable);
  CHECK(LocalAddress::of(directory + "/" + std::string(100, 's')).error().code == ErrorCode::kInvalid);
}

TEST_CASE("a listener whose queue is full is busy, not gone") {
  const test::TemporaryDirectory root;
  const OwnedDescriptor listener = listen_at(root.path + "/socket", 0);
  const auto first = connect_local(root.path + "/socket");
  REQUIRE(first.ok());
  CHECK(connect_local(root.path + "/socket").error().code == ErrorCode::kTimeout);
}

TEST_CASE("a line is answered by a line, in parts of any size") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  const OwnedDescriptor own(ends[0]);
  REQUIRE(::fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
  const timeval patience{30, 0};
  REQUIRE(::setsockopt(ends[1], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);
  const std::string question(3'000'000, 'q');
  std::thread other([socket = ends[1], &question] {
    const OwnedDescriptor end(socket);
    std::string heard;
    std::string part(100'000, '\0');
    while (heard.size() <= question.size()) {
      const ssize_t count = ::recv(end.value(), part.data(), part.size(), 0);
      if (count <= 0) break;
      heard.append(part, 0, static_cast<std::size_t>(count));
    }
    CHECK(heard == question + "\n");
    CHECK(::send(end.value(), "one ", 4, MSG_NOSIGNAL) == 4);
    std::this_thread::sleep_for(5ms);
    CHECK(::send(end.value(), "answer\n", 7, MSG_NOSIGNAL) == 7);
  });
  const auto answer = exchange_lines(own.value(), question, in(20s));
  other.join();
  REQUIRE(answer.ok());
  CHECK(*answer == "one answer");
}

TEST_CASE("whoever says nothing is waited for until the deadline, and last words are heard") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
  const OwnedDescriptor own(ends[0]);
  CHECK(exchange_lines(own.value(), "anybody?", in(20ms)).error().code == ErrorCode::kTimeout);
  CHECK(::send(ends[1], "no place for you\n", 17, MSG_NOSIGNAL) == 17);
  ::close(ends[1]);
  const auto answer = exchange_lines(own.value(), "hello", in(5s));
  REQUIRE(answer.ok());
  CHECK(*answer == "no place for you");
  CHECK(exchange_lines(own.value(), "hello", in(5s)).error().code == ErrorCode::kPeerLost);
}

}  // namespace elastictrain::transport
