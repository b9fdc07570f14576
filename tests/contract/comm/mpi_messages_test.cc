// The messages of a sum over MPI: how many, how large, how many at a time; over a stand-in for MPI within one process.
#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

#include "train/comm/mpi/mpi_communicator.h"
#include "train/comm/mpi/mpi_message.h"

namespace elastictrain::comm::testing {
namespace {

constexpr std::size_t kKiB = 1 << 10;
constexpr std::size_t kMiB = 1 << 20;

struct Operation {
  std::byte* bytes = nullptr;
  std::size_t size = 0;
  bool done = false;
};

// What all ranks share. As in MPI's rendezvous, a message is read where the sender keeps it, once the receiver asks.
struct Exchange {
  using Route = std::tuple<int, int, int>;  // from, to, tag
  std::mutex mutex;
  std::map<Route, std::deque<std::shared_ptr<Operation>>> sent;
};

struct Counts {
  std::size_t messages = 0;
  std::size_t largest = 0;        // bytes, with header
  std::size_t most_receives = 0;  // that wait at a time
};

class LocalMpi final : public MpiLibrary {
 public:
  LocalMpi(Exchange& exchange, int rank, int size, Counts& counts)
      : exchange_(exchange), rank_(rank), size_(size), counts_(counts) {}

  std::string version() const override { return "within one process"; }
  bool is_open_mpi() const override { return false; }
  Status join() override { return {}; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int greatest_tag() const override { return 32767; }
  std::string thread_level() const override { return "multiple"; }
  bool threads_may_call() const override { return true; }
  bool began_here() const override { return false; }

  Result<MpiRequest> send(std::span<const std::byte> bytes, int to, int tag) override {
    ++counts_.messages;
    counts_.largest = std::max(counts_.largest, bytes.size());
    auto operation = std::make_shared<Operation>(Operation{const_cast<std::byte*>(bytes.data()), bytes.size()});
    const std::lock_guard lock(exchange_.mutex);
    exchange_.sent[{rank_, to, tag}].push_back(operation);
    return keep({operation, {}});
  }

  Result<MpiRequest> receive(std::span<std::byte> bytes, int from, int tag) override {
    counts_.most_receives = std::max(counts_.most_receives, ++waiting_);
    const auto operation = std::make_shared<Operation>(Operation{bytes.data(), bytes.size()});
    return keep({operation, Exchange::Route{from, rank_, tag}});
  }

  Result<std::optional<std::size_t>> test(MpiRequest& request) override {
    const auto& [operation, route] = requests_[request.handle - 1];
    const std::lock_guard lock(exchange_.mutex);
    if (!route) return operation->done ? std::optional(operation->size) : std::nullopt;
    auto& queue = exchange_.sent[*route];
    if (queue.empty()) return std::optional<std::size_t>();
    const auto message = queue.front();
    queue.pop_front();
    REQUIRE(message->size <= operation->size);
    std::copy_n(message->bytes, message->size, operation->bytes);
    message->done = true;
    --waiting_;
    return std::optional(message->size);
  }

  void cancel(MpiRequest&) override {}
  Status leave() override { return {}; }

 private:
  struct Request {
    std::shared_ptr<Operation> operation;
    std::optional<Exchange::Route> route;  // of a receive
  };
  MpiRequest keep(Request request) {
    requests_.push_back(std::move(request));
    return {requests_.size()};
  }

  Exchange& exchange_;
  const int rank_;
  const int size_;
  Counts& counts_;
  std::size_t waiting_ = 0;
  std::deque<Request> requests_;
};

struct Outcome {
  Counts counts;
  Status status;
  std::vector<float> data;
  std::vector<float> input;
  std::vector<float> kept;
};

// Sums at ranks of one host each; the first `present` of them take part.
std::vector<Outcome> sum(std::uint32_t size, std::size_t bytes, std::uint32_t present,
                         std::chrono::milliseconds patience = std::chrono::seconds(60)) {
  Exchange exchange;
  Ranks members;
  Layout layout;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    members.push_back(rank);
    layout.hosts.push_back({rank});
  }
  layout.rails = 1;
  std::vector<Outcome> outcomes(present);
  std::vector<std::unique_ptr<MpiWorld>> worlds;
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < present; ++rank) {
    auto& outcome = outcomes[rank];
    worlds.push_back(std::make_unique<MpiWorld>(
        std::make_unique<LocalMpi>(exchange, static_cast<int>(rank), static_cast<int>(size), outcome.counts)));
    threads.emplace_back([&, rank, world = worlds.back().get()] {
      outcome.input.resize(bytes / sizeof(float));
      for (std::size_t i = 0; i < outcome.input.size(); ++i) {
        outcome.input[i] = 0.1F * static_cast<float>((i * 7 + rank * 13) % 101);
      }
      outcome.data = outcome.input;
      outcome.kept.resize(outcome.input.size());
      BuildSpec spec;
      spec.generation = 1;
      spec.rank = rank;
      Layout mine = layout;
      mine.host = rank;
      OpControl control(patience, size, 1);
      control.begin();
      MpiRail rail(*world, spec, mine, members, control);
      outcome.status = rail.all_reduce(ReduceVector(outcome.data, {}, 1.0F, outcome.kept), nullptr);
    });
  }
  for (auto& thread : threads) thread.join();
  return outcomes;
}

float exact_sum(std::uint32_t ranks, std::size_t i) {
  float sum = 0;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) sum += 0.1F * static_cast<float>((i * 7 + rank * 13) % 101);
  return sum;
}

struct Expected {
  std::uint32_t ranks;
  std::size_t bytes;
  std::size_t messages;
  std::size_t payload;  // of the largest
  std::size_t receives;
};

TEST_CASE("a sum over MPI takes as many messages as planned, and leaves the same bits everywhere") {
  const Expected cases[] = {
      {8, 4 * kKiB, 3, 4 * kKiB, 1},            // three rounds
      {8, kMiB, 14, 128 * kKiB, 8},             // 14 rounds of a ring, a message each
      {2, kMiB, 2, 512 * kKiB, 2},              // a block each, in one message
      {6, 480 * kKiB, 20, 64 * kKiB - 256, 8},  // 10 rounds of a ring, two messages a block
      {8, 25 * kMiB, 98, 512 * kKiB, 8},        // 14 rounds, blocks of 3.125 MiB in seven messages
  };
  for (const auto& [ranks, bytes, messages, payload, receives] : cases) {
    CAPTURE(ranks);
    CAPTURE(bytes);
    const auto outcomes = sum(ranks, bytes, ranks);
    for (const auto& outcome : outcomes) {
      REQUIRE(outcome.status.ok());
      CHECK(outcome.counts.messages == messages);
      CHECK(outcome.counts.largest == payload + MpiMessage::kHeaderBytes);
      CHECK(outcome.counts.most_receives == receives);
      CHECK(outcome.data == outcomes[0].data);
      CHECK(outcome.kept == outcome.input);
    }
    for (std::size_t i = 0; i < outcomes[0].data.size(); i += 997) {
      CHECK(outcomes[0].data[i] == doctest::Approx(exact_sum(ranks, i)));
    }
  }
}

TEST_CASE("a sum over MPI whose last rank is missing ends with an error everywhere, and the input is kept") {
  for (const std::size_t bytes : {4 * kKiB, kMiB, 25 * kMiB}) {
    CAPTURE(bytes);
    for (const auto& outcome : sum(8, bytes, 7, std::chrono::milliseconds(300))) {
      REQUIRE_FALSE(outcome.status.ok());
      CHECK(outcome.status.error().code == ErrorCode::kTimeout);
      CHECK(outcome.kept == outcome.input);
    }
  }
}

TEST_CASE("the way of a sum over MPI depends on its size and on the number of ranks") {
  CHECK(plan_mpi_sum(16 * kKiB, 8) == MpiSumPlan{MpiSumWay::kDoubling, 16 * kKiB});
  CHECK(plan_mpi_sum(16 * kKiB + 4, 8) == MpiSumPlan{MpiSumWay::kRing, 64 * kKiB - 256});
  CHECK(plan_mpi_sum(510 * kKiB, 4) == MpiSumPlan{MpiSumWay::kRing, 64 * kKiB - 256});
  CHECK(plan_mpi_sum(510 * kKiB + 4, 4) == MpiSumPlan{MpiSumWay::kRing, 512 * kKiB});
  CHECK(plan_mpi_sum(kMiB, 2) == MpiSumPlan{MpiSumWay::kRing, 512 * kKiB});
}

}  // namespace
}  // namespace elastictrain::comm::testing
