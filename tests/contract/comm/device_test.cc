// Device memory through the data plane of GPUs, on the stand-ins: sums, kept inputs, norms, transfers, errors.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "tests/contract/comm/device_bucket.h"
#include "tests/contract/comm/world.h"
#include "tests/standin/standin_cuda.h"
#include "train/device/stream.h"
#include "train/session/half_floats.h"

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

// A gradient in 16 bits in the memory of the stand-in's device.
class NarrowBucket {
 public:
  using Values = std::vector<std::uint16_t>;

  NarrowBucket(Element element, const Values& values, std::uint32_t ranks)
      : element_(element), count_(values.size()), device_(*device::Device::open(device_of_this_thread())) {
    stream_ = std::move(*device::Stream::create(device_));
    narrow_ = memory(2 * count_);
    keep_ = memory(2 * count_);
    wide_ = memory(4 * count_);
    parts_ = memory(Shards{count_, ranks}.bytes_of_parts());
    put(values);
  }

  void put(const Values& values) {
    if (!narrow_.copy_in(values.data(), narrow_.bytes(), stream_.handle()) || !stream_.synchronize()) panic("copy");
  }
  Values sum() const { return read(narrow_); }
  Values kept() const { return read(keep_); }

  // Without weights the sum is made in single precision everywhere.
  DeviceReduce reduce(const std::vector<float>& weights, std::uint32_t rank, bool exchanges, Input input) const {
    DeviceReduce reduce{.count = count_,
                        .narrow = narrow_.as<void>(),
                        .element = element_,
                        .scale = weights[rank],
                        .input = input,
                        .keep = keep_.as<void>(),
                        .stream = stream_.handle(),
                        .want_norms = true};
    if (exchanges) {
      reduce.weights = weights;
      reduce.parts = parts_.as<void>();
    } else {
      reduce.data = wide_.as<float>();
    }
    return reduce;
  }

 private:
  device::DeviceMemory memory(std::size_t bytes) const {
    return std::move(*device::DeviceMemory::allocate(device_, bytes));
  }
  Values read(const device::DeviceMemory& memory) const {
    Values values(count_);
    if (!memory.copy_out(values.data(), memory.bytes(), stream_.handle()) || !stream_.synchronize()) panic("copy");
    return values;
  }

  const Element element_;
  const std::size_t count_;
  const std::shared_ptr<device::Device> device_;
  device::Stream stream_;
  device::DeviceMemory narrow_;
  device::DeviceMemory keep_;
  device::DeviceMemory wide_;
  device::DeviceMemory parts_;
};

float widened(Element element, std::uint16_t bits) {
  return element == Element::kFloat16 ? session::from_half(bits) : session::from_bfloat(bits);
}

std::uint16_t rounded(Element element, float value) {
  return element == Element::kFloat16 ? session::to_half(value) : session::to_bfloat(value);
}

NarrowBucket::Values narrow_values(Element element, std::uint32_t rank, std::size_t count) {
  NarrowBucket::Values narrow(count);
  const auto values = values_of(rank, count);
  for (std::size_t i = 0; i < count; ++i) narrow[i] = rounded(element, values[i] * float(1 + i % 50));
  return narrow;
}

// What `ranks` get from ranks with these weights: added in their order, rounded once.
NarrowBucket::Values narrow_sum(Element element, const std::vector<float>& weights, std::size_t count) {
  std::vector<float> sums(count);
  for (std::uint32_t rank = 0; rank < weights.size(); ++rank) {
    if (weights[rank] == 0) continue;
    const auto input = narrow_values(element, rank, count);
    for (std::size_t i = 0; i < count; ++i) sums[i] += weights[rank] * widened(element, input[i]);
  }
  NarrowBucket::Values narrow(count);
  for (std::size_t i = 0; i < count; ++i) narrow[i] = rounded(element, sums[i]);
  return narrow;
}

// Those of a step whose second worker has just joined, if there are several.
std::vector<float> uneven_weights(std::size_t ranks) {
  std::vector<float> weights(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank)
    weights[rank] = rank == 1 ? 0.0F : float(rank + 1) / float(4 * ranks);
  return weights;
}

double squares_of(Element element, const NarrowBucket::Values& values) {
  double sum = 0;
  for (const auto value : values) sum += double(widened(element, value)) * double(widened(element, value));
  return sum;
}

constexpr std::uint16_t kNan = 0x7fff;  // in both types

TEST_CASE("gradients of 16 bits are summed in single precision in one order, kept as they are and rounded once") {
  Generation generation = 0;
  for (const auto& shape : shapes()) {
    World world(shape);
    const auto weights = uneven_weights(world.size());
    for (const auto element : {Element::kFloat16, Element::kBfloat16}) {
      for (const bool exchanges : {true, false}) {
        for (const std::size_t count : {std::size_t{1}, std::size_t{17}, std::size_t{1000}, std::size_t{30'001}}) {
          CAPTURE(shape.name);
          CAPTURE(count);
          CAPTURE(exchanges);
          const auto expected = narrow_sum(element, weights, count);
          std::atomic<int> wrong{0};
          world.run(
              [&](Communicator& comm) {
                const bool is_new = weights[comm.rank()] == 0;
                const auto input =
                    is_new ? NarrowBucket::Values(count, kNan) : narrow_values(element, comm.rank(), count);
                NarrowBucket bucket(element, input, comm.world_size());
                for (const auto kind : {Input::kKeep, Input::kKept}) {
                  ReduceStats stats;
                  const auto reduce = bucket.reduce(weights, comm.rank(), exchanges, is_new ? Input::kNothing : kind);
                  if (!comm.device_sums()->all_reduce_device(reduce, &stats)) ++wrong;
                  if (bucket.sum() != expected) ++wrong;
                  if (!is_new && bucket.kept() != input) ++wrong;
                  const double own = is_new ? 0 : squares_of(element, input);
                  if (std::abs(stats.local_square_sum - own) > 1e-9 * own) ++wrong;
                  const double all = squares_of(element, expected);
                  if (std::abs(stats.reduced_square_sum - all) > (exchanges ? 1e-9 : 1e-2) * all) ++wrong;
                  bucket.put(NarrowBucket::Values(count, kNan));  // an update may write where the sum was
                }
              },
              ++generation);
          CHECK(wrong == 0);
        }
      }
    }
  }
}

// 256, 1 and 1 are 256 in bfloat16, and 60000 and 60000 are infinite in half precision.
TEST_CASE("no addition of gradients of 16 bits is rounded, and none of weighted ones is beyond their range") {
  World world(shm(3));
  const auto sum = [&](Element element, std::uint16_t first, std::uint16_t others, float weight,
                       Generation generation) {
    std::atomic<std::uint16_t> result{0};
    world.run(
        [&](Communicator& comm) {
          const std::vector<float> weights(3, weight);
          NarrowBucket bucket(element, {comm.rank() == 0 ? first : others}, 3);
          if (!comm.device_sums()->all_reduce_device(bucket.reduce(weights, comm.rank(), true, Input::kKeep))) return;
          if (comm.rank() == 2) result = bucket.sum()[0];
        },
        generation);
    return widened(element, result);
  };
  CHECK(sum(Element::kBfloat16, 0x4380, 0x3f80, 1.0F, 1) == 258.0F);
  CHECK(sum(Element::kFloat16, 0x6800, 0x3c00, 1.0F, 2) == 2050.0F);
  CHECK(sum(Element::kFloat16, 0x7b53, 0x7b53, 1.0F / 3, 3) == 60000.0F);
}

TEST_CASE("an exchanged gradient is as near to the exact sum as its type allows") {
  constexpr std::size_t kCount = 20'000;
  World world(tcp(4));
  const std::vector<float> weights(4, 0.25F);
  std::vector<double> exact(kCount);
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    const auto input = narrow_values(Element::kBfloat16, rank, kCount);
    for (std::size_t i = 0; i < kCount; ++i) exact[i] += 0.25 * double(widened(Element::kBfloat16, input[i]));
  }
  std::atomic<int> wrong{0};
  world.run([&](Communicator& comm) {
    NarrowBucket bucket(Element::kBfloat16, narrow_values(Element::kBfloat16, comm.rank(), kCount), 4);
    if (!comm.device_sums()->all_reduce_device(bucket.reduce(weights, comm.rank(), true, Input::kKeep))) ++wrong;
    const auto sum = bucket.sum();
    for (std::size_t i = 0; i < kCount; ++i) {
      const double half_of_the_last_bit = std::abs(exact[i]) / 256 + 1e-5;  // and the error of single precision
      if (std::abs(double(widened(Element::kBfloat16, sum[i])) - exact[i]) > half_of_the_last_bit) ++wrong;
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("an exchange that breaks leaves the inputs whole, and the others repeat it without the lost rank") {
  constexpr std::size_t kCount = 5000;
  constexpr auto kElement = Element::kBfloat16;
  World before(shm(3));
  World after(shm(2));
  const std::vector<float> weights(3, 1.0F / 3);
  const std::vector<float> without(2, 0.5F);
  const auto old = before.build_all();
  const auto next = after.build_all();
  std::vector<std::thread> ranks;
  std::atomic<int> wrong{0};
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&, rank] {
      use_device_of(rank);
      const auto input = narrow_values(kElement, rank, kCount);
      if (rank == 2) return old[rank]->abort();
      NarrowBucket bucket(kElement, input, 3);
      if (old[rank]->device_sums()->all_reduce_device(bucket.reduce(weights, rank, true, Input::kKeep))) ++wrong;
      if (bucket.kept() != input) ++wrong;
      if (!next[rank]->device_sums()->all_reduce_device(bucket.reduce(without, rank, true, Input::kKept))) ++wrong;
      if (bucket.sum() != narrow_sum(kElement, without, kCount)) ++wrong;
      if (bucket.kept() != input) ++wrong;
    });
  }
  for (auto& rank : ranks) rank.join();
  CHECK(wrong == 0);
}

TEST_CASE("an exchange with weights of other ranks than there are is refused") {
  World world({"alone", {1}});
  const auto comm = world.build(0);
  NarrowBucket bucket(Element::kFloat16, {1, 2, 3}, 1);
  const std::vector<float> weights(2, 0.5F);
  CHECK(comm->device_sums()->all_reduce_device(bucket.reduce(weights, 0, true, Input::kKeep)).error().code ==
        ErrorCode::kInvalid);
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
