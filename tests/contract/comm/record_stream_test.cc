// Where the bytes of records arrive, and when they count.
#include <doctest/doctest.h>
#include <sys/socket.h>

#include <algorithm>
#include <span>
#include <vector>

#include "tests/contract/comm/records.h"
#include "train/comm/channel.h"
#include "train/comm/socket.h"

namespace elastictrain::comm::testing::records {
namespace {

using protocol::Encryption;

struct SocketPair {
  Socket here;
  Socket there;
  SocketPair() {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    here = Socket(ends[0]);
    there = Socket(ends[1]);
  }
  void send(std::span<const std::byte> bytes) const {
    REQUIRE(::send(there.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
  }
};

TEST_CASE("a record that is only authenticated arrives in its place, and counts once it is checked") {
  SocketPair sockets;
  RecordCipher cipher(Encryption::kIntegrity, {});
  RecordReader reader(Encryption::kIntegrity, {}, "");
  const auto first = random_bytes(100'000, 6);
  const auto second = random_bytes(50, 7);
  const auto record = sealed(cipher, first);
  std::vector<std::byte> room(2 * first.size());
  sockets.send(std::span(record).first(60'000));
  CHECK(*reader.read_in_place(sockets.here.fd(), room) == 0);
  CHECK(std::equal(room.begin(), room.begin() + 60'000 - kRecordHeaderBytes, first.begin()));
  std::byte next{};
  CHECK_FALSE(*reader.peek(sockets.here.fd(), {&next, 1}));
  // The rest of it, and the beginning of the next one.
  const auto behind = sealed(cipher, second);
  sockets.send(std::span(record).subspan(60'000));
  sockets.send(std::span(behind).first(2));
  CHECK(*reader.read_in_place(sockets.here.fd(), room) == first.size());
  CHECK(std::equal(first.begin(), first.end(), room.begin()));
  sockets.send(std::span(behind).subspan(2));
  CHECK(*reader.read_in_place(sockets.here.fd(), room) == second.size());
  CHECK(std::equal(second.begin(), second.end(), room.begin()));
}

TEST_CASE("a record does not count in its place with any one bit of it changed") {
  RecordCipher sender(Encryption::kIntegrity, {});
  const auto record = sealed(sender, random_bytes(40, 8));
  for (std::size_t bit = 8 * kRecordHeaderBytes; bit < 8 * record.size(); ++bit) {
    SocketPair sockets;
    RecordReader reader(Encryption::kIntegrity, {}, "");
    std::vector<std::byte> room(40);
    auto changed = record;
    changed[bit / 8] ^= std::byte(1 << bit % 8);
    sockets.send(std::span(changed).first(20));  // less than a whole record: it continues in the room
    CHECK(*reader.read_in_place(sockets.here.fd(), room) == 0);
    sockets.send(std::span(changed).subspan(20));
    CHECK_FALSE(reader.read_in_place(sockets.here.fd(), room).ok());
  }
}

TEST_CASE("nothing that is encrypted arrives in its place") {
  SocketPair sockets;
  RecordCipher cipher(Encryption::kFull, {});
  RecordReader reader(Encryption::kFull, {}, "");
  const auto content = random_bytes(100'000, 6);
  const auto record = sealed(cipher, content);
  std::vector<std::byte> room(content.size());
  sockets.send(std::span(record).first(60'000));
  CHECK(*reader.read_in_place(sockets.here.fd(), room) == 0);
  CHECK(room == std::vector<std::byte>(content.size()));
  sockets.send(std::span(record).subspan(60'000));
  CHECK(*reader.read_in_place(sockets.here.fd(), room) == content.size());
  CHECK(room == content);
}

}  // namespace
}  // namespace elastictrain::comm::testing::records
