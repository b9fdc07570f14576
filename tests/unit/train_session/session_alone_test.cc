#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "elastictrain/session.hpp"

namespace elastictrain {
namespace {

// The message with which a session refuses these variables; nothing if it begins.
std::string refusal(const std::map<std::string, std::string>& variables) {
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  std::string message;
  try {
    Session session;
  } catch (const SessionError& error) {
    message = error.what();
  }
  for (const auto& [name, value] : variables) ::unsetenv(name.c_str());
  return message;
}

TEST_CASE("a program without a launcher trains alone through all epochs") {
  Session session;
  std::vector<float> weights(100);
  session.share_state("weights", weights.data(), weights.size() * sizeof(float));
  session.set_data({.sample_count = 100, .epochs = 2, .seed = 1, .batch = 32});
  REQUIRE(session.start());
  CHECK_FALSE(session.launched());
  CHECK(session.world_size() == 1);
  std::multiset<std::uint64_t> seen;
  std::vector<std::size_t> sizes;
  while (auto batch = session.next_batch()) {
    CHECK(batch->first_of_epoch == (sizes.size() % 4 == 0));
    CHECK(batch->global_samples == batch->samples.size());
    sizes.push_back(batch->samples.size());
    seen.insert(batch->samples.begin(), batch->samples.end());
    std::vector<float> gradient(100, 2.0F);
    session.all_reduce(gradient.data(), gradient.size());
    CHECK(gradient == std::vector<float>(100, 2.0F));
    session.commit_step({.loss = 0.5});
  }
  CHECK(session.outcome() == Outcome::kFinished);
  CHECK(sizes == std::vector<std::size_t>{32, 32, 32, 4, 32, 32, 32, 4});
  CHECK(session.committed_step() == 8);
  CHECK(seen.size() == 200);
  for (std::uint64_t i = 0; i < 100; ++i) CHECK(seen.count(i) == 2);
  CHECK(session.last_step().loss == doctest::Approx(0.5));
}

TEST_CASE("a part of a replica over several hosts has no session") {
  const std::string words = refusal({{"ELASTICTRAIN_REPLICA_HOST", "1"}});
  CHECK(words.find("this process is a part of a replica over several hosts") != std::string::npos);
  CHECK(words.find("call elastictrain.torch.replica() first") != std::string::npos);
  CHECK(refusal({{"ELASTICTRAIN_REPLICA_HOST", "0"}}).empty());
}

TEST_CASE("max_steps ends data without an end") {
  Session session;
  session.set_data({.sample_count = 0, .batch = 4, .max_steps = 3});
  session.start();
  int steps = 0;
  while (auto batch = session.next_batch()) {
    CHECK(batch->samples.empty());
    CHECK(batch->local_samples == 4);
    session.commit_step();
    ++steps;
  }
  CHECK(steps == 3);
}

TEST_CASE("without shuffling the samples come in order") {
  Session session;
  session.set_data({.sample_count = 10, .epochs = 1, .batch = 4, .shuffle = false});
  session.start();
  std::vector<std::uint64_t> seen;
  while (auto batch = session.next_batch()) {
    seen.insert(seen.end(), batch->samples.begin(), batch->samples.end());
    session.commit_step();
  }
  CHECK(seen == std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
}

TEST_CASE("the gradient norm is that of the averaged gradient") {
  Session session;
  session.set_data({.sample_count = 10, .epochs = 1, .batch = 10});
  session.start();
  REQUIRE(session.next_batch());
  std::vector<float> gradient(4, 3.0F);
  session.all_reduce(gradient.data(), gradient.size());
  session.commit_step();
  CHECK(session.last_step().gradient_norm == doctest::Approx(6.0));
  CHECK(session.last_step().samples == 10);
}

// Takes a step whose averaged gradient has this squared norm.
void take_step(Session& session, double square) {
  auto gradient = static_cast<float>(std::sqrt(square));
  session.all_reduce(&gradient, 1);
  session.commit_step();
}

// G^2 = 1 and S = 12: |g_2|^2 = 7, |g_3|^2 = 5, |g_5|^2 = 3.4.
TEST_CASE("alone, the norms of two halves of a batch show the noise scale") {
  Session session;
  session.set_data({.sample_count = 5, .epochs = 18, .batch = 5});
  session.start();
  CHECK(session.half_batch() == 0);
  CHECK_THROWS_AS(session.report_halves(7, 5), SessionError);
  REQUIRE(session.next_batch());
  CHECK(session.half_batch() == 2);
  CHECK_THROWS_AS(session.report_halves(-1, 5), SessionError);
  session.report_halves(7, 5);
  take_step(session, 3.4);
  REQUIRE(session.next_batch());
  CHECK(session.half_batch() == 0);
  CHECK_THROWS_AS(session.report_halves(7, 5), SessionError);
  take_step(session, 3.4);
  CHECK(session.monitors().noise_scale == doctest::Approx(12));
  for (int step = 3; step <= 16; ++step) {
    REQUIRE(session.next_batch());
    CHECK(session.half_batch() == 0);
    take_step(session, 3.4);
  }
  REQUIRE(session.next_batch());
  CHECK(session.half_batch() == 2);
  session.report_halves(INFINITY, 5);  // an overflow says nothing
  take_step(session, 3.4);
  REQUIRE(session.next_batch());
  take_step(session, 3.4);
  CHECK(session.monitors().noise_scale == doctest::Approx(12));
}

TEST_CASE("a batch of one sample has no halves, and a program need not report them") {
  for (const std::uint32_t batch : {1U, 4U}) {
    Session session;
    session.set_data({.sample_count = 8, .epochs = 1, .batch = batch});
    session.start();
    REQUIRE(session.next_batch());
    CHECK(session.half_batch() == batch / 2);
    take_step(session, 3.4);
    REQUIRE(session.next_batch());
    take_step(session, 3.4);
    CHECK_FALSE(session.monitors().has_noise_scale);
  }
}

TEST_CASE("without monitors no halves are asked for") {
  ::setenv("ELASTICTRAIN_MONITORS", "0", 1);
  Session session;
  ::unsetenv("ELASTICTRAIN_MONITORS");
  session.set_data({.sample_count = 8, .batch = 4});
  session.start();
  REQUIRE(session.next_batch());
  CHECK(session.half_batch() == 0);
}

TEST_CASE("calls out of order say what to do") {
  Session session;
  float value = 0;
  CHECK_THROWS_AS(session.next_batch(), SessionError);
  CHECK_THROWS_AS(session.all_reduce(&value, 1), SessionError);
  CHECK_THROWS_AS(session.set_data({.batch = 0}), SessionError);
  session.share_state("w", &value, sizeof value);
  CHECK_THROWS_AS(session.share_state("w", &value, sizeof value), SessionError);
  session.set_data({.sample_count = 4});
  session.start();
  CHECK_THROWS_AS(session.start(), SessionError);
  CHECK_THROWS_AS(session.commit_step(), SessionError);
  REQUIRE(session.next_batch());
  CHECK_THROWS_AS(session.next_batch(), SessionError);
}

TEST_CASE("an exception between a background reduction and its wait does not hang") {
  const auto run = [] {
    std::vector<float> gradient(1 << 16);
    Session session;
    session.set_data({.sample_count = 4});
    session.start();
    session.next_batch();
    session.all_reduce_async(gradient.data(), gradient.size());
    throw std::runtime_error("the program failed");
  };
  CHECK_THROWS_AS(run(), std::runtime_error);
}

TEST_CASE("a socket path without an agent is an error that names it") {
  const auto message = refusal({{"ELASTICTRAIN_SOCKET", "/nonexistent/agent.sock"}, {"ELASTICTRAIN_WORKER_ID", "1"}});
  CHECK(message.find("/nonexistent/agent.sock") != std::string::npos);
}

TEST_CASE("a way to sum that there is not is refused with those there are") {
  const auto message = refusal({{"ELASTICTRAIN_BACKEND", "ncll"}});
  CHECK(message.find("ELASTICTRAIN_BACKEND=ncll is neither auto, cpu, mpi nor nccl") != std::string::npos);
  const auto other = refusal({{"ELASTICTRAIN_NCCL_BUILD", "atswap"}});
  CHECK(other.find("ELASTICTRAIN_NCCL_BUILD=atswap is neither auto, background, at-swap nor shrink") !=
        std::string::npos);
}

TEST_CASE("a number that is none is refused by its variable's name") {
  const auto message = refusal({{"ELASTICTRAIN_HEARTBEAT_MS", "soon"}});
  CHECK(message.find("ELASTICTRAIN_HEARTBEAT_MS=soon") != std::string::npos);
}

}  // namespace
}  // namespace elastictrain
