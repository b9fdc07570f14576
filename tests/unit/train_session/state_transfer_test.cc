// What a joiner takes for the state of its donors, and what it refuses.
#include "train/session/state_transfer.h"

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/support/contains.h"
#include "train/comm/socket.h"

namespace elastictrain::session {
namespace {

using test::contains;

constexpr std::size_t kBytes = 100;
constexpr std::chrono::seconds kPatience{30};
using Change = std::function<void(state::TransferHeader&)>;

struct Memory {
  std::array<std::byte, kBytes> bytes{};
  state::StateBuffers buffers;

  Memory() { buffers.add("weights", bytes.data(), bytes.size()); }
};

// Two donors send their halves, the second behind a header that `change` has been at. Where `differs` is, the first one
// holds something else.
Status receive(Memory& joiner, const Change& change, std::optional<std::size_t> differs = std::nullopt) {
  Memory donor;
  std::vector<comm::StateSocket> sockets;
  std::vector<comm::Socket> donors;
  for (std::uint32_t rank : {0, 1}) {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0);
    donors.emplace_back(ends[0]);
    sockets.push_back({rank, true, comm::Channel(comm::Socket(ends[1]))});
    donor.bytes.fill(std::byte{7});
    if (differs && rank == 0) donor.bytes[*differs] = std::byte{8};
    const auto slice = state::slice_of_donor(kBytes, rank, 2, false);
    state::TransferHeader header{.generation = 3,
                                 .layout_hash = donor.buffers.layout_hash(),
                                 .total_bytes = kBytes,
                                 .slice_offset = slice.offset,
                                 .slice_length = slice.length,
                                 .sample_count = 8};
    if (rank == 1) change(header);
    const auto bytes = state::encode_header(header);
    CHECK(::send(ends[0], bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    CHECK(::send(ends[0], donor.bytes.data() + slice.offset, slice.length, 0) == static_cast<ssize_t>(slice.length));
    const auto hashes =
        piece_hashes(donor.buffers, state::slice_to_compare(kBytes, rank, 2, false), DeviceState::kThroughHost);
    REQUIRE(hashes.ok());
    CHECK(::send(ends[0], hashes->data(), hashes->size() * 8, 0) == static_cast<ssize_t>(hashes->size() * 8));
  }
  StateReceiver receiver(std::move(sockets), 3, 8, joiner.buffers, kPatience, std::make_shared<comm::CancelToken>(),
                         [] {});
  return receiver.wait();
}

TEST_CASE("a joiner has the state once each donor's part of it has arrived") {
  Memory joiner;
  const Status status = receive(joiner, [](auto&) {});
  CHECK(status.ok());
  for (const std::byte byte : joiner.bytes) CHECK(byte == std::byte{7});
}

TEST_CASE("a joiner refuses the parts of donors that hold different state") {
  for (const std::size_t place : {std::size_t{0}, kBytes - 1}) {
    Memory joiner;
    const Status status = receive(
        joiner, [](auto&) {}, place);
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().code == ErrorCode::kInvalid);
    CHECK(contains(status.error().message, "\"weights\" is not equal on rank "));
  }
}

TEST_CASE("a joiner refuses a donor with other state, other data, another generation or another part") {
  const std::vector<std::pair<Change, std::string>> refusals{
      {[](auto& header) { ++header.layout_hash; }, "rank 1 has another state layout"},
      {[](auto& header) { header.total_bytes = 99; }, "rank 1 has another state layout (99 bytes, here 100)"},
      {[](auto& header) { header.sample_count = 9; }, "rank 1 has 9 samples, here are 8"},
      {[](auto& header) { header.generation = 4; }, "rank 1 sent another slice"},
      {[](auto& header) { header.slice_offset = 0; }, "rank 1 sent another slice"},
      {[](auto& header) { header.slice_length = 1; }, "rank 1 sent another slice"}};
  for (const auto& [change, text] : refusals) {
    Memory joiner;
    const Status status = receive(joiner, change);
    REQUIRE_FALSE(status.ok());
    CHECK(contains(status.error().message, text));
    for (const std::byte byte : joiner.bytes) CHECK(byte == std::byte{0});
  }
}

}  // namespace
}  // namespace elastictrain::session
