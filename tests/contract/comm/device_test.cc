// Device memory through the data plane of GPUs, on the stand-ins: sums, kept inputs, norms, transfers, errors.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "tests/contract/comm/device_bucket.h"
#include "tests/contract/comm/world.h"
#include "tests/standin/standin_cuda.h"
#include "train/device/event.h"

namespace elastictrain::comm::testing {
namespace {

using Input = DeviceReduce::Input;

std::vector<float> values_of(std::uint32_t rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = std::sin(float(i + 1) * float(rank + 1));
  return values;
}

std::vector<Shape> shapes() {
  return {{"alone", {1}}, shm(2), shm(3), tcp(4), {"2 hosts with 2 ranks", {2, 2}}};
}

TEST_CASE("every rank gets the bits of one sum, its own input back, and both norms") {
  for (const auto& shape : shapes()) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{300'000}}) {
      CAPTURE(shape.name);
      CAPTURE(count);
      World world(shape);
      std::vector<std::vector<float>> sums(world.size());
      std::vector<ReduceStats> stats(world.size());
      std::atomic<int> wrong{0};
      world.run([&](Communicator& comm) {
        const auto input = values_of(comm.rank(), count);
        Bucket bucket(input);
        if (!comm.device_sums()->all_reduce_device(bucket.reduce(0.5F), &stats[comm.rank()])) ++wrong;
        if (bucket.kept() != input) ++wrong;
        sums[comm.rank()] = bucket.data();
      });
      CHECK(wrong == 0);
      std::vector<double> expected(count);
      double reduced = 0;
      for (std::uint32_t rank = 0; rank < world.size(); ++rank) {
        const auto input = values_of(rank, count);
        for (std::size_t i = 0; i < count; ++i) expected[i] += 0.5 * double(input[i]);
      }
      for (std::size_t i = 0; i < count; ++i) {
        if (std::abs(expected[i] - double(sums[0][i])) > 1e-5) ++wrong;
        reduced += double(sums[0][i]) * double(sums[0][i]);
      }
      CHECK(wrong == 0);
      for (const auto& sum : sums) CHECK(sum == sums[0]);
      CHECK(stats[0].reduced_square_sum == doctest::Approx(reduced));
      CHECK(stats[world.size() - 1].reduced_square_sum == stats[0].reduced_square_sum);
      CHECK(stats[0].local_square_sum > 0);
    }
  }
}

// Work of a stream that ends when the gate is opened, perhaps after the gate's end.
class Gate {
 public:
  explicit Gate(void* stream) {
    standin_cuda_enqueue(
        stream,
        [](void* mine) {
          const std::unique_ptr<Flag> open(static_cast<Flag*>(mine));
          while (!**open) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        },
        new Flag(open_));
  }
  ~Gate() { open(); }
  void open() { *open_ = true; }

 private:
  using Flag = std::shared_ptr<std::atomic<bool>>;
  Flag open_ = std::make_shared<std::atomic<bool>>(false);
};

TEST_CASE("a bucket's sum ends before the backward pass that is queued behind its gradient") {
  World world(shm(2));
  std::atomic<int> wrong{0};
  world.run([&](Communicator& comm) {
    const auto device = *device::Device::open(device_of_this_thread());
    Bucket bucket(std::vector<float>(1000, 1.0F));
    const auto gradient = std::move(*device::Event::create(device));
    const auto pass = std::move(*device::Event::create(device));
    if (!gradient.record(bucket.stream())) ++wrong;
    Gate rest(bucket.stream());
    if (!pass.record(bucket.stream())) ++wrong;
    auto reduce = bucket.reduce();
    reduce.ready = gradient.handle();
    if (!comm.device_sums()->start_sum(reduce) || !comm.device_sums()->finish_sums()) ++wrong;
    if (pass.query() != device::kCudaNotReady) ++wrong;
    rest.open();
    if (bucket.data() != std::vector<float>(1000, 2.0F)) ++wrong;
  });
  CHECK(wrong == 0);
}

TEST_CASE("all buckets are started before the first gradient is there, and the host waits once") {
  World world(shm(3));
  std::atomic<int> wrong{0};
  std::vector<ReduceStats> stats(3);
  world.run([&](Communicator& comm) {
    std::vector<std::unique_ptr<Bucket>> buckets;
    for (std::size_t i = 0; i < 40; ++i) buckets.push_back(std::make_unique<Bucket>(std::vector<float>(10 * i, 1.0F)));
    {
      Gate pass(buckets[39]->stream());
      for (const auto& bucket : buckets) {
        auto reduce = bucket->reduce(2.0F);
        reduce.stream = buckets[39]->stream();
        if (!comm.device_sums()->start_sum(reduce)) ++wrong;
      }
    }
    if (!comm.device_sums()->finish_sums(&stats[comm.rank()])) ++wrong;
    for (std::size_t i = 0; i < 40; ++i) {
      if (buckets[i]->data() != std::vector<float>(10 * i, 6.0F)) ++wrong;
    }
    if (!comm.device_sums()->finish_sums()) ++wrong;
  });
  CHECK(wrong == 0);
  for (const auto& seen : stats) {
    CHECK(seen.local_square_sum == doctest::Approx(7800));
    CHECK(seen.reduced_square_sum == doctest::Approx(7800 * 36));
  }
}

// 256, 1 and 1: a sum in bfloat16 or in half precision would be 256 or lose its low bits.
TEST_CASE("gradients of 16 bits are summed in single precision, kept in it and rounded once") {
  World world(shm(3));
  std::atomic<int> wrong{0};
  for (const auto element : {Element::kFloat16, Element::kBfloat16}) {
    const bool half = element == Element::kFloat16;
    const std::uint16_t one = half ? 0x3c00 : 0x3f80;
    const std::uint16_t big = half ? 0x6800 : 0x4380;  // 2048, 256
    const std::uint16_t sum = half ? 0x6801 : 0x4381;  // 2050, 258
    world.run(
        [&](Communicator& comm) {
          const auto device = *device::Device::open(device_of_this_thread());
          Bucket wide(999);
          std::vector<std::uint16_t> values(999, comm.rank() == 0 ? big : one);
          const auto narrow = std::move(*device::DeviceMemory::allocate(device, 2 * values.size()));
          if (!narrow.copy_in(values.data(), narrow.bytes(), wide.stream())) ++wrong;
          auto reduce = wide.reduce();
          reduce.narrow = narrow.as<void>();
          reduce.element = element;
          for (const auto input : {Input::kKeep, Input::kKept}) {
            reduce.input = input;
            if (!comm.device_sums()->all_reduce_device(reduce)) ++wrong;
            std::vector<std::uint16_t> back(999);
            if (!narrow.copy_out(back.data(), narrow.bytes(), wide.stream())) ++wrong;
            const auto kept = wide.kept();  // waits for the stream
            if (back != std::vector<std::uint16_t>(999, sum)) ++wrong;
            if (kept[998] != (comm.rank() > 0 ? 1.0F : half ? 2048.0F : 256.0F)) ++wrong;
          }
        },
        half ? 1 : 2);
  }
  CHECK(wrong == 0);
}

TEST_CASE("sums that were started have ended when another one fails, and every input is kept") {
  World world(shm(2));
  const auto comms = world.build_all();
  const auto input = values_of(0, 1000);
  Bucket first(input);
  Bucket second(input);
  auto& sums = *comms[0]->device_sums();
  REQUIRE(sums.start_sum(first.reduce(0.5F)).ok());
  comms[0]->abort();
  CHECK(sums.start_sum(second.reduce(0.5F)).error().code == ErrorCode::kAborted);
  CHECK(first.kept() == input);
  CHECK(second.kept() == input);
  CHECK(sums.finish_sums().ok());  // nothing is left to wait for
}

TEST_CASE("a step is repeated from the kept input, and a rank without one gives zeros") {
  World world(shm(3));
  std::atomic<int> wrong{0};
  world.run([&](Communicator& comm) {
    Bucket bucket(std::vector<float>(500, 1.0F));
    if (!comm.device_sums()->all_reduce_device(bucket.reduce(2.0F))) ++wrong;
    if (bucket.data() != std::vector<float>(500, 6.0F)) ++wrong;
    bucket.put(std::vector<float>(500, 777.0F));
    const bool has_nothing = comm.rank() == 2;
    if (!comm.device_sums()->all_reduce_device(bucket.reduce(3.0F, has_nothing ? Input::kNothing : Input::kKept)))
      ++wrong;
    if (bucket.data() != std::vector<float>(500, 6.0F)) ++wrong;
    if (bucket.kept() != std::vector<float>(500, 1.0F)) ++wrong;
  });
  CHECK(wrong == 0);
}

TEST_CASE("the end of a sum is marked where the device makes it, so that waiting for a late peer is part of the sum") {
  constexpr std::chrono::milliseconds kLate{30};
  World world(shm(2));
  double took = 0;
  world.run([&](Communicator& comm) {
    Bucket bucket(std::vector<float>(100, 1.0F));
    const auto device = *device::Device::open(0);
    const auto ready = std::move(*device::Event::create(device, true));
    const auto finished = std::move(*device::Event::create(device, true));
    if (!ready.record(bucket.stream()) || !ready.synchronize() || !comm.barrier()) panic("no begin");
    if (comm.rank() == 1) std::this_thread::sleep_for(kLate);
    auto reduce = bucket.reduce();
    reduce.finished = finished.handle();
    if (!comm.device_sums()->all_reduce_device(reduce)) panic("no sum");
    if (comm.rank() == 0) took = *finished.seconds_since(ready);
  });
  CHECK(took >= std::chrono::duration<double>(kLate).count());
}

TEST_CASE("pieces travel between any two ranks at once, and what is reduced afterwards waits for them") {
  World world(tcp(3));
  std::atomic<int> wrong{0};
  world.run([&](Communicator& comm) {
    const std::uint32_t next = (comm.rank() + 1) % 3;
    const std::uint32_t last = (comm.rank() + 2) % 3;
    Bucket own(values_of(comm.rank(), 100'000));
    Bucket theirs(100'000);
    const std::vector<DeviceTransfer> pieces{{own.bytes(), 200'000, next, false},
                                             {own.bytes() + 200'000, 200'000, next, false},
                                             {theirs.bytes(), 200'000, last, true},
                                             {theirs.bytes() + 200'000, 200'000, last, true}};
    if (!comm.device_transfers()->start_device_transfers(pieces, nullptr)) ++wrong;
    Bucket bucket(std::vector<float>(10, 1.0F));
    if (!comm.device_sums()->all_reduce_device(bucket.reduce())) ++wrong;
    if (theirs.data() != values_of(last, 100'000)) ++wrong;
    if (!comm.device_transfers()->finish_device_transfers()) ++wrong;
    if (bucket.data() != std::vector<float>(10, 3.0F)) ++wrong;
  });
  CHECK(wrong == 0);
}

TEST_CASE("host memory and device memory take turns") {
  World world({"2 hosts with 2 and 1 ranks", {2, 1}});
  std::atomic<int> wrong{0};
  world.run([&](Communicator& comm) {
    CHECK(comm.device_transfers() != nullptr);
    Bucket bucket(100);
    for (int step = 0; step < 50; ++step) {
      bucket.put(std::vector<float>(100, 1.0F));
      std::vector<float> host(100, 2.0F);
      if (!comm.device_sums()->all_reduce_device(bucket.reduce()) || bucket.data()[99] != 3.0F) ++wrong;
      if (!comm.all_reduce(host) || host[99] != 6.0F) ++wrong;
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("calls that make no sense are refused") {
  World world({"alone", {1}});
  const auto comm = world.build(0);
  Bucket bucket(10);
  auto reduce = bucket.reduce(1.0F, Input::kKept);
  reduce.keep = nullptr;
  CHECK(comm->device_sums()->all_reduce_device(reduce).error().code == ErrorCode::kInvalid);
  const std::vector<DeviceTransfer> piece{{bucket.bytes(), 4, 0, false}};
  CHECK_FALSE(comm->device_transfers()->start_device_transfers(piece, nullptr).ok());
}

TEST_CASE("abort from another thread ends a sum that waits for a peer, here and there, and the input is kept") {
  World world(shm(2));
  const auto comms = world.build_all();
  const auto input = values_of(0, 1000);
  Bucket bucket(input);
  Status status;
  std::thread blocked([&] { status = comms[0]->device_sums()->all_reduce_device(bucket.reduce(0.25F)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  comms[0]->abort();
  blocked.join();
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().code == ErrorCode::kAborted);
  CHECK(bucket.kept() == input);
  Bucket other(input);
  CHECK_FALSE(comms[1]->device_sums()->all_reduce_device(other.reduce()).ok());
  CHECK(other.kept() == input);
  CHECK_FALSE(comms[1]->barrier().ok());
}

TEST_CASE("an unused communicator that is closed is a lost peer to ranks that use theirs") {
  World world(shm(3));
  auto comms = world.build_all();
  comms[2].reset();
  std::vector<std::thread> users;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    users.emplace_back([&, rank] {
      std::vector<float> lane(9, 1.0F);
      const Status status = comms[rank]->all_reduce(lane);
      CHECK_FALSE(status.ok());
      CHECK(status.error().code == ErrorCode::kPeerLost);
    });
  }
  for (auto& user : users) user.join();
}

TEST_CASE("a sum that a peer does not join ends at the operation timeout") {
  World world(shm(2));
  std::atomic<bool> over{false};
  Status status;
  std::vector<std::thread> ranks;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      const auto comm = world.build(rank, 1, std::chrono::milliseconds(80));
      if (rank == 0) {
        Bucket bucket(10);
        status = comm->device_sums()->all_reduce_device(bucket.reduce());
        over = true;
      } else {
        while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }
  for (auto& rank : ranks) rank.join();
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().code == ErrorCode::kTimeout);
}

TEST_CASE("the next generation is built while the old one sums on the device") {
  World world({"2 hosts with 2 and 1 ranks", {2, 1}});
  std::atomic<int> wrong{0};
  world.run([&](Communicator& comm) {
    std::unique_ptr<Communicator> next;
    std::atomic<bool> built{false};
    std::thread builder([&] {
      next = world.build(comm.rank(), 2);
      built = true;
    });
    Bucket bucket(5000);
    for (bool all_built = false; !all_built;) {
      bucket.put(std::vector<float>(5000, 1.0F));
      std::array<float, 1> lane{built ? 1.0F : 0.0F};
      if (!comm.device_sums()->all_reduce_device(bucket.reduce()) || bucket.data()[4999] != 3.0F) ++wrong;
      if (!comm.all_reduce(lane)) ++wrong;
      all_built = lane[0] == 3.0F;
    }
    builder.join();
    bucket.put(std::vector<float>(5000, 2.0F));
    if (!next->device_sums()->all_reduce_device(bucket.reduce()) || bucket.data()[0] != 6.0F) ++wrong;
  });
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace elastictrain::comm::testing
