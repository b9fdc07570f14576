// Exchange of models between two or three ranks, of which one has no valid model yet.
#include "train/session/model_exchange.h"

#include <doctest/doctest.h>

#include <functional>
#include <vector>

#include "tests/contract/comm/world.h"

namespace elastictrain::session {
namespace {

using comm::testing::World;

constexpr float kWrongModel = 1e6F;

struct Replica {
  std::vector<float> model;
  std::uint64_t other_state = 0;
  bool contributes = true;
  ModelExchange exchange;

  Replica(float value, std::uint64_t state, bool counts) : model(5, value), other_state(state), contributes(counts) {
    exchange.add_state(std::as_writable_bytes(std::span(model)));
    exchange.model_is(model);
    exchange.add_state(std::as_writable_bytes(std::span(&other_state, 1)));
  }
};

using Work = std::function<Status(Replica&, comm::Communicator&)>;

// Runs `work` on all ranks. Returns the replicas afterwards.
std::vector<Replica> after(std::vector<Replica> before, const Work& work) {
  std::vector<Replica> replicas;
  replicas.reserve(before.size());
  for (const Replica& one : before) replicas.emplace_back(one.model[0], one.other_state, one.contributes);
  std::vector<Status> statuses(before.size());
  World world(comm::testing::tcp(before.size()));
  world.run([&](comm::Communicator& communicator) {
    statuses[communicator.rank()] = work(replicas[communicator.rank()], communicator);
  });
  for (const Status& status : statuses) CHECK(status);
  return replicas;
}

TEST_CASE("a rank without a model yet is in no average, and keeps its data") {
  const auto replicas = after({{2, 0, true}, {kWrongModel, 0, false}, {4, 0, true}},
                              [](Replica& replica, comm::Communicator& communicator) {
                                auto status = replica.exchange.average(communicator, {}, replica.contributes);
                                replica.exchange.keep_correction(0.5F);
                                replica.exchange.apply_correction();
                                replica.exchange.apply_correction();  // nothing is left of it
                                return status;
                              });
  CHECK(replicas[0].model == std::vector<float>(5, 2.5F));
  CHECK(replicas[1].model == std::vector<float>(5, kWrongModel));
  CHECK(replicas[2].model == std::vector<float>(5, 3.5F));
}

TEST_CASE("a swap with a rank without a model changes neither") {
  for (const bool both : {true, false}) {
    CAPTURE(both);
    const auto replicas =
        after({{2, 0, true}, {kWrongModel, 0, both}}, [](Replica& replica, comm::Communicator& communicator) {
          auto status = replica.exchange.swap(communicator, 1 - communicator.rank(), replica.contributes);
          replica.exchange.keep_correction(0.5F);
          replica.exchange.apply_correction();
          return status;
        });
    const float middle = (2 + kWrongModel) / 2;
    CHECK(replicas[0].model == std::vector<float>(5, both ? middle : 2.0F));
    CHECK(replicas[1].model == std::vector<float>(5, both ? middle : kWrongModel));
  }
}

TEST_CASE("equal replicas hold the average of the models that count, and one rank's other state") {
  const auto replicas = after({{kWrongModel, 70, false}, {2, 71, true}, {4, 72, true}},
                              [](Replica& replica, comm::Communicator& communicator) {
                                auto status = replica.exchange.gather_equal_state(communicator, 1, replica.contributes);
                                replica.exchange.adopt();
                                return status;
                              });
  for (const Replica& replica : replicas) {
    CHECK(replica.model == std::vector<float>(5, 3.0F));
    CHECK(replica.other_state == 71);
  }
}

}  // namespace
}  // namespace elastictrain::session
