// Planes by themselves: several ranks in this process, each on a thread of its own.
#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "elastictrain/plane.hpp"
#include "train/session/plane_address.h"

namespace elastictrain::test {
namespace {

using Data = std::vector<float>;

// Of the variable, while it exists.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Setting() { ::unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* const name_;
};

struct Planes {
  std::vector<std::unique_ptr<Plane>> all;
  std::vector<std::byte> endpoints;
  PlaneWorld world{.generation = 1, .token = {1, 2, 3}, .index = 1, .time_limit = std::chrono::seconds(10)};

  explicit Planes(std::size_t ranks) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      all.push_back(std::make_unique<Plane>());
      const auto endpoint = all.back()->endpoint();
      CHECK(endpoint.size() == Plane::kEndpointBytes);
      endpoints.insert(endpoints.end(), endpoint.begin(), endpoint.end());
    }
  }

  // Of the first ranks, so many.
  PlaneWorld of(std::uint32_t rank, std::size_t ranks) const {
    PlaneWorld own = world;
    own.rank = rank;
    own.endpoints = std::span(endpoints).first(ranks * Plane::kEndpointBytes);
    return own;
  }

  // Of the first ranks, so many; what each of them throws.
  std::vector<std::string> on(std::size_t ranks, const std::function<void(std::uint32_t)>& body) const {
    std::vector<std::string> thrown(ranks);
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          body(rank);
        } catch (const SessionInterrupted& error) {
          thrown[rank] = std::string("interrupted: ") + error.what();
        } catch (const SessionError& error) {
          thrown[rank] = error.what();
        }
      });
    }
    for (auto& thread : threads) thread.join();
    return thrown;
  }

  void build(std::size_t ranks) {
    CHECK(on(ranks, [&](std::uint32_t rank) { all[rank]->build(of(rank, ranks)); }) == std::vector<std::string>(ranks));
  }
};

TEST_CASE("a plane sums what its ranks have, times their weights; an empty batch adds nothing") {
  Planes planes(3);
  planes.build(3);
  std::vector<Data> data{{1, 2, 4}, {10, 20, 40}, {std::nanf(""), std::nanf(""), std::nanf("")}};
  std::vector<PlaneNorms> norms(3);
  const float scales[] = {0.75F, 0.25F, 0};
  planes.on(3, [&](std::uint32_t rank) {
    norms[rank] = planes.all[rank]->all_reduce({.data = data[rank].data(),
                                                .count = 3,
                                                .scale = scales[rank],
                                                .has_input = rank != 2,
                                                .keeps = true,
                                                .wants_norms = true});
  });
  for (const auto& sum : data) CHECK(sum == Data{3.25, 6.5, 13});
  CHECK(norms[0].local_square_sum == 21);
  CHECK(norms[1].local_square_sum == 2100);
  CHECK(norms[2].local_square_sum == 0);
  for (const auto& norm : norms) CHECK(norm.reduced_square_sum == doctest::Approx(221.8125));
}

TEST_CASE("values of 16 bits are summed in single precision and rounded once") {
  Planes planes(2);
  planes.build(2);
  // 1 + 2^-8 in bfloat16 are 0x3f80 and 0x3b80: the sum is a tie, which goes to the even 1; half of it is exact.
  std::vector<std::vector<std::uint16_t>> data{{0x3f80, 0x4000}, {0x3b80, 0x4040}};
  planes.on(2, [&](std::uint32_t rank) {
    planes.all[rank]->all_reduce({.data = data[rank].data(), .count = 2, .type = DataType::kBFloat16});
  });
  for (const auto& sum : data) CHECK(sum == std::vector<std::uint16_t>{0x3f80, 0x40a0});
  std::vector<std::vector<std::uint16_t>> halves{{0x3c00}, {0x4000}};  // 1 and 2 in float16
  planes.on(2, [&](std::uint32_t rank) {
    planes.all[rank]->all_reduce({.data = halves[rank].data(), .count = 1, .type = DataType::kFloat16, .scale = 0.5F});
  });
  for (const auto& sum : halves) CHECK(sum == std::vector<std::uint16_t>{0x3e00});
  Data wide{1};
  CHECK_THROWS_AS(planes.all[0]->all_reduce({.data = wide.data(), .count = 1, .type = DataType::kFloat64}),
                  SessionError);
}

TEST_CASE("a sum that is repeated begins with the input that was kept, or with what is there if it never began") {
  Planes planes(2);
  planes.build(2);
  std::vector<Data> first{{1, 2}, {3, 5}};
  std::vector<Data> second{{7}, {11}};
  const auto sum = [&](std::vector<Data>& data, std::uint32_t bucket, std::uint64_t step, bool is_kept) {
    return [&data, &planes, bucket, step, is_kept](std::uint32_t rank) {
      planes.all[rank]->all_reduce({.data = data[rank].data(),
                                    .count = data[rank].size(),
                                    .step = step,
                                    .bucket = bucket,
                                    .keeps = true,
                                    .is_kept = is_kept});
    };
  };
  planes.on(2, sum(first, 0, 1, false));
  planes.on(2, sum(second, 1, 1, false));
  CHECK(first[0] == Data{4, 7});
  // The next step's first try of bucket 1 does not get to the planes: its copy is still that of the step before.
  first = {{10, 20}, {30, 50}};
  second = {{70}, {110}};
  planes.on(2, sum(first, 0, 2, false));
  planes.all[0]->abort(1);
  CHECK(planes.on(2, sum(first, 0, 2, true))[0].starts_with("interrupted"));
  planes.world.generation = 2;
  planes.build(2);
  planes.on(2, sum(first, 0, 2, true));
  planes.on(2, sum(second, 1, 2, true));
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CHECK(first[rank] == Data{40, 70});
    CHECK(second[rank] == Data{180});
  }
  // Alone, from the copies: of 16 bits as well.
  planes.world.generation = 3;
  planes.build(1);
  planes.on(1, sum(first, 0, 2, true));
  planes.on(1, sum(second, 1, 2, true));
  CHECK(first[0] == Data{10, 20});
  CHECK(second[0] == Data{70});
  Data longer{1, 2, 3};
  CHECK_THROWS_AS(
      planes.all[0]->all_reduce({.data = longer.data(), .count = 3, .step = 2, .keeps = true, .is_kept = true}),
      SessionError);
}

TEST_CASE("a repeated sum of 16 bits begins with the values of the first try") {
  Planes planes(2);
  planes.build(2);
  std::vector<std::vector<std::uint16_t>> data{{0x3f80}, {0x4000}};
  const auto sum = [&](bool is_kept) {
    return [&data, &planes, is_kept](std::uint32_t rank) {
      planes.all[rank]->all_reduce(
          {.data = data[rank].data(), .count = 1, .type = DataType::kBFloat16, .keeps = true, .is_kept = is_kept});
    };
  };
  planes.on(2, sum(false));
  CHECK(data[0].front() == 0x4040);  // 3
  planes.world.generation = 2;
  planes.build(1);
  planes.on(1, sum(true));
  CHECK(data[0].front() == 0x3f80);
}

TEST_CASE("planes of two indices do not meet, though they name one another") {
  Token secret{};
  secret[3] = 9;
  CHECK(session::plane_token(secret, 1) != session::plane_token(secret, 2));
  CHECK(session::plane_token(secret, 1) != secret);
  CHECK(session::plane_token(secret, 1) != session::plane_token(Token{}, 1));
  for (const char* const transport : {"auto", "tcp"}) {
    const Setting setting("ELASTICTRAIN_TRANSPORT", transport);
    Planes planes(2);
    planes.world.time_limit = std::chrono::milliseconds(300);
    const auto thrown = planes.on(2, [&](std::uint32_t rank) {
      auto world = planes.of(rank, 2);
      world.index = rank;
      planes.all[rank]->build(world);
    });
    for (const auto& why : thrown) CHECK(why.starts_with("interrupted: the plane of generation 1: not all peers"));
  }
}

TEST_CASE("connections of a plane between hosts are protected as it is told, and never less than its process is") {
  const Setting transport("ELASTICTRAIN_TRANSPORT", "tcp");
  const Setting level("ELASTICTRAIN_ENCRYPTION", "integrity");
  Planes planes(2);
  std::vector<Data> data{Data(100'000, 1), Data(100'000, 2)};
  for (const std::uint32_t encryption : {1, 2}) {
    ++planes.world.generation;
    planes.world.encryption = encryption;
    planes.build(2);
    data = {Data(100'000, 1), Data(100'000, 2)};
    planes.on(2, [&](std::uint32_t rank) {
      planes.all[rank]->all_reduce({.data = data[rank].data(), .count = data[rank].size()});
    });
    for (const auto& sum : data) CHECK(sum == Data(100'000, 3));
  }
  for (const std::uint32_t encryption : {0, 3}) {
    planes.world.encryption = encryption;
    CHECK_THROWS_WITH_AS(planes.all[0]->build(planes.of(0, 2)),
                         doctest::Contains("not that of ELASTICTRAIN_ENCRYPTION"), SessionError);
  }
  // Ranks that were told different levels.
  planes.world.encryption = 1;
  const auto thrown = planes.on(2, [&](std::uint32_t rank) {
    auto world = planes.of(rank, 2);
    world.encryption += rank;
    planes.all[rank]->build(world);
  });
  for (const auto& why : thrown) CHECK(why.find("encryption") != std::string::npos);
}

TEST_CASE("an abort ends what waits, and what would begin for that generation; a later one connects") {
  for (const char* const transport : {"auto", "tcp"}) {
    const Setting setting("ELASTICTRAIN_TRANSPORT", transport);
    Planes planes(2);
    Data data{1};
    const auto waits = [&](const std::function<void()>& work) {
      std::string why;
      std::thread thread([&] {
        try {
          work();
        } catch (const SessionInterrupted& error) {
          why = error.what();
        }
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it may wait by then; the result is the same
      planes.all[0]->abort(planes.world.generation);
      thread.join();
      CHECK_FALSE(why.empty());
    };
    waits([&] { planes.all[0]->build(planes.of(0, 2)); });
    CHECK_THROWS_WITH_AS(planes.all[0]->build(planes.of(0, 2)), doctest::Contains("it was aborted"),
                         SessionInterrupted);
    CHECK_THROWS_AS(planes.all[0]->all_reduce({.data = data.data(), .count = 1}), SessionError);
    ++planes.world.generation;
    planes.build(2);
    waits([&] { planes.all[0]->all_reduce({.data = data.data(), .count = 1}); });
    ++planes.world.generation;
    planes.build(2);
    planes.all[0]->abort(planes.world.generation - 1);  // late
    std::vector<Data> sums{{1}, {2}};
    planes.on(2, [&](std::uint32_t rank) { planes.all[rank]->all_reduce({.data = sums[rank].data(), .count = 1}); });
    CHECK(sums == std::vector<Data>{{3}, {3}});
  }
}

TEST_CASE("ranks whose sums differ get an error, and so does a rank whose peer is gone") {
  Planes planes(2);
  planes.build(2);
  std::vector<Data> data{Data(4), Data(5)};
  const auto differ = planes.on(2, [&](std::uint32_t rank) {
    planes.all[rank]->all_reduce({.data = data[rank].data(), .count = data[rank].size()});
  });
  CHECK((!differ[0].empty() && !differ[1].empty()));
  ++planes.world.generation;
  planes.build(2);
  planes.all[1].reset();
  CHECK_THROWS_AS(planes.all[0]->all_reduce({.data = data[0].data(), .count = 4}), SessionInterrupted);
}

TEST_CASE("a forked child leaves a plane as it is") {
  Planes planes(2);
  planes.build(2);
  const pid_t child = ::fork();
  if (child == 0) {
    float value = 1;
    int refused = 0;
    try {
      planes.all[0]->all_reduce({.data = &value, .count = 1});
    } catch (const SessionError&) {
      ++refused;
    }
    planes.all.clear();
    ::_exit(refused == 1 ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  std::vector<Data> data{{1}, {2}};
  planes.on(2, [&](std::uint32_t rank) { planes.all[rank]->all_reduce({.data = data[rank].data(), .count = 1}); });
  CHECK(data == std::vector<Data>{{3}, {3}});
}

TEST_CASE("endpoints travel in blocks of one size; what is none is refused") {
  protocol::Endpoint endpoint{
      .host_key = "host", .addresses = {"10.0.0.1", "fe80::1%eth0"}, .port = 4711, .unix_name = "name"};
  const auto block = session::write_endpoint(endpoint, Plane::kEndpointBytes).value();
  const auto read = session::read_endpoint(block).value();
  CHECK(read.host_key == "host");
  CHECK(read.addresses == endpoint.addresses);
  CHECK(read.port == 4711);
  CHECK(read.unix_name == "name");
  CHECK_FALSE(session::write_endpoint(endpoint, 20));
  endpoint.host_key = "two\nlines";
  CHECK_FALSE(session::write_endpoint(endpoint, Plane::kEndpointBytes));
  for (const std::string text : {"", "4711\nhost\n", "4711\nhost\nname\n", "0\nhost\nname\n1.2.3.4\n",
                                 "65536\nhost\nname\n1.2.3.4\n", "4711\nhost\nname\n1.2.3.4"}) {
    CAPTURE(text);
    CHECK_FALSE(session::read_endpoint(std::as_bytes(std::span(text))));
  }
  Plane plane;
  const std::vector<std::byte> nothing(Plane::kEndpointBytes);
  CHECK_THROWS_AS(plane.build({.generation = 1, .endpoints = nothing}), SessionError);
  CHECK_THROWS_AS(plane.build({.generation = 1}), SessionError);
  CHECK_THROWS_AS(plane.build({.generation = 1, .rank = 1, .endpoints = block}), SessionError);
}

}  // namespace
}  // namespace elastictrain::test
