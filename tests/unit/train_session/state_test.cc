#include <doctest/doctest.h>
#include <sys/mman.h>

#include <algorithm>
#include <set>
#include <vector>

#include "tests/masked_memory.h"
#include "train/state/progress.h"
#include "train/state/state_buffers.h"

namespace elastictrain::state {
namespace {

TEST_CASE("a shadow has the layout of what it stands for, with the types of tensors") {
  float weights[4] = {};
  StateBuffers buffers;
  buffers.add("weights", weights, sizeof weights, nullptr, TensorType{"F32", {2, 2}});
  std::vector<std::byte> storage;
  CHECK(buffers.shadow(storage).layout_hash() == buffers.layout_hash());
}

TEST_CASE("a name is shared once") {
  float data[4] = {};
  StateBuffers buffers;
  CHECK(buffers.add("w", data, sizeof data));
  CHECK_FALSE(buffers.add("w", data, sizeof data));
  CHECK(buffers.total_bytes() == 16);
}

TEST_CASE("the layout hash depends on names, order and sizes, not on content") {
  std::vector<float> a(10), b(20);
  const auto hash = [&](const char* first, std::size_t n, const char* second, std::size_t m) {
    StateBuffers buffers;
    buffers.add(first, a.data(), n);
    buffers.add(second, b.data(), m);
    return buffers.layout_hash();
  };
  const auto base = hash("a", 40, "b", 80);
  a[3] = 5;
  CHECK(hash("a", 40, "b", 80) == base);
  CHECK(hash("b", 40, "a", 80) != base);
  CHECK(hash("a", 36, "b", 80) != base);
  CHECK(hash("a", 40, "b", 76) != base);
}

TEST_CASE("small values have hashes of their own, whatever the seed") {
  for (const std::uint64_t seed : {0, 1, 2}) {
    std::set<std::uint64_t> hashes;
    for (std::uint64_t value = 0; value < 1000; ++value) hashes.insert(hash_bytes(&value, sizeof value, seed));
    CHECK(hashes.size() == 1000);
  }
}

TEST_CASE("one flipped bit anywhere changes the content hash") {
  std::vector<unsigned char> bytes(1003);
  StateBuffers buffers;
  buffers.add("bytes", bytes.data(), bytes.size());
  std::set<std::uint64_t> hashes{*buffers.content_hash()};
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<unsigned char>(1U << (bit % 8));
    hashes.insert(*buffers.content_hash());
    bytes[bit / 8] ^= static_cast<unsigned char>(1U << (bit % 8));
  }
  CHECK(hashes.size() == bytes.size() * 8 + 1);
}

TEST_CASE("slices cover all bytes without overlap") {
  for (const std::uint64_t total : {0, 1, 63, 64, 65, 1000, 100'000}) {
    for (std::uint32_t count = 1; count <= 9; ++count) {
      std::uint64_t next = 0;
      for (std::uint32_t i = 0; i < count; ++i) {
        const Slice slice = slice_of(total, i, count);
        CHECK(slice.offset == next);
        next += slice.length;
      }
      CHECK(next == total);
    }
  }
}

TEST_CASE("pieces walk over buffer boundaries") {
  std::vector<char> a(5), b(0), c(7);
  StateBuffers buffers;
  buffers.add("a", a.data(), a.size());
  buffers.add("b", b.data(), b.size());
  buffers.add("c", c.data(), c.size());
  CHECK(buffers.piece(3, 100).bytes == 2);
  CHECK(static_cast<void*>(buffers.piece(5, 100).data) == c.data());
  CHECK(buffers.piece(6, 4).bytes == 4);
  CHECK(buffers.piece(12, 4).bytes == 0);
}

TEST_CASE("the content hash is that of the state, wherever it lies") {
  std::vector<std::byte> host(1000, std::byte{3});
  std::vector<std::byte> device(1000, ~std::byte{3});
  tests::MaskedMemory port;
  StateBuffers on_host, on_device;
  on_host.add("weights", host.data(), host.size());
  on_device.add("weights", device.data(), device.size(), &port);
  CHECK(*on_host.content_hash() == *on_device.content_hash());
  CHECK(on_host.layout_hash() == on_device.layout_hash());
  on_device.populate();
  CHECK(device == std::vector<std::byte>(1000, ~std::byte{3}));
  port.fails = true;
  CHECK(on_device.content_hash().error().message == "the device is gone");
}

TEST_CASE("pieces of a device are filled through host memory") {
  std::vector<std::byte> device(10);
  tests::MaskedMemory port;
  StateBuffers buffers;
  buffers.add("weights", device.data(), device.size(), &port);
  HostView view;
  const auto piece = buffers.piece(4, 100);
  CHECK(piece.bytes == 6);
  const auto memory = view.to_fill(piece);
  std::fill(memory.begin(), memory.end(), std::byte{5});
  REQUIRE(view.written(piece, 2));  // a part of it is there
  CHECK(device[3] == std::byte{0});
  CHECK(device[5] == ~std::byte{5});
  CHECK(device[6] == std::byte{0});
  CHECK((*HostView().of(buffers.piece(5, 1)))[0] == std::byte{5});
}

TEST_CASE("the learning-rate factor moves linearly and stays") {
  LearningRateRamp ramp;
  ramp.retarget(3.0, 4);
  std::vector<double> factors;
  for (int step = 0; step < 6; ++step, ramp.advance()) factors.push_back(ramp.factor());
  CHECK(factors == std::vector<double>{1.0, 1.5, 2.0, 2.5, 3.0, 3.0});
  ramp.retarget(1.0, 0);
  CHECK(ramp.factor() == 1.0);
}

TEST_CASE("a ramp that is retargeted in its middle starts from where it is") {
  LearningRateRamp ramp;
  ramp.retarget(3.0, 4);
  ramp.advance();
  ramp.advance();
  ramp.retarget(4.0, 2);
  CHECK(ramp.factor() == 2.0);
  ramp.advance();
  CHECK(ramp.factor() == 3.0);
}

TransferHeader example() {
  return {.generation = 3,
          .layout_hash = 4,
          .total_bytes = 5,
          .slice_offset = 6,
          .slice_length = 7,
          .sample_count = 8,
          .progress = {.committed_step = 9,
                       .samples_used = 10,
                       .sampler = {.seed = 11, .epoch = 12, .cursor = 13, .returned = {{0, 2}, {5, 8}}},
                       .learning_rate = {.from = 1.5, .to = 2.5, .length_steps = 20, .done_steps = 5}},
          .next_shares = {{WorkerId{7}, 32}, {WorkerId{4'000'000'000}, 0, true}},
          .data_ended_at = 21,
          .early = {{"layout", {std::byte{1}, std::byte{2}, std::byte{3}}}, {"", {}}},
          .attachments = {{"record", {std::byte{4}}}}};
}

TEST_CASE("the transfer header survives the wire") {
  const auto decoded = decode_header(encode_header(example()));
  REQUIRE(decoded.ok());
  CHECK(decoded->generation == 3);
  CHECK(decoded->slice_length == 7);
  CHECK(decoded->progress.sampler == example().progress.sampler);
  CHECK(decoded->next_shares == example().next_shares);
  CHECK(decoded->progress.committed_step == 9);
  CHECK(decoded->data_ended_at == 21);
  CHECK(decoded->early == example().early);
  CHECK(decoded->attachments == example().attachments);
  CHECK(decoded->progress.learning_rate.factor() == 1.75);
}

TEST_CASE("a damaged transfer header is refused") {
  const auto good = encode_header(example());
  for (std::size_t i = 0; i < good.size(); ++i) {
    auto bad = good;
    bad[i] ^= std::byte{0x10};
    CHECK_FALSE(decode_header(bad).ok());
  }
  for (std::size_t length = 0; length < good.size(); ++length) {
    CHECK_FALSE(decode_header(std::span(good).first(length)).ok());
  }
}

TEST_CASE("a transfer header whose returned samples cannot be is refused") {
  using Returned = std::vector<Interval>;
  for (const auto& returned : {Returned{{3, 0}}, Returned{{5, 2}, {1, 2}}, Returned{{1, 2}, {3, 2}}, Returned{{12, 2}},
                               Returned{{1, ~std::uint64_t{0}}}}) {
    auto header = example();
    header.progress.sampler.returned = returned;
    CHECK_FALSE(decode_header(encode_header(header)).ok());
  }
}

TEST_CASE("the length of a transfer header is bounded before memory is taken") {
  auto bytes = encode_header(example());
  CHECK(header_length(std::span(bytes).first(kHeaderPrefixBytes)).value() == bytes.size());
  bytes[15] = std::byte{1};
  CHECK_FALSE(header_length(bytes).ok());
}

TEST_CASE("populating gives buffers their memory and keeps what is in them") {
  constexpr std::size_t kBytes = 64 * 4096;
  void* memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  auto* bytes = static_cast<std::byte*>(memory);
  bytes[5 * 4096] = std::byte{7};
  std::byte small{3};
  StateBuffers buffers;
  REQUIRE(buffers.add("large", bytes + 100, kBytes - 200));
  REQUIRE(buffers.add("small", &small, 1));
  REQUIRE(buffers.add("empty", nullptr, 0));
  buffers.populate();
  CHECK(bytes[5 * 4096] == std::byte{7});
  CHECK(small == std::byte{3});
  std::vector<unsigned char> resident(kBytes / 4096);
  REQUIRE(::mincore(memory, kBytes, resident.data()) == 0);
  // The pages at both ends belong to the buffer only in part.
  CHECK(std::all_of(resident.begin() + 1, resident.end() - 1, [](unsigned char page) { return (page & 1) != 0; }));
  ::munmap(memory, kBytes);
}

}  // namespace
}  // namespace elastictrain::state
