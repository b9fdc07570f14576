// What all workers of a step must conclude alike: whose shares count, when all swap, where the data end.
#include <doctest/doctest.h>

#include <array>
#include <limits>
#include <memory>
#include <vector>

#include "train/session/communicator_builder.h"
#include "train/session/control_lane.h"
#include "train/session/gradients.h"
#include "train/session/run_progress.h"
#include "train/session/session_communicators.h"

namespace elastictrain::session {
namespace {

// As an all-reduce adds them.
LaneOutput sum_of(const std::vector<LaneInput>& inputs) {
  const auto ranks = static_cast<std::uint32_t>(inputs.size());
  ControlLane total(0, ranks);
  const auto sum = total.fill(inputs[0]);
  for (std::uint32_t rank = 1; rank < ranks; ++rank) {
    ControlLane lane(rank, ranks);
    const auto values = lane.fill(inputs[rank]);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
  }
  return total.read();
}

TEST_CASE("workers swap where all are ready, stop where all want to, and end their data where one does") {
  CHECK_FALSE(sum_of({{}, {}, {}}).all_ready);
  CHECK_FALSE(sum_of({{.swap_ready = true}, {}, {}}).all_ready);
  CHECK_FALSE(sum_of({{.swap_ready = true}, {.swap_ready = true}, {}}).all_ready);
  CHECK(sum_of({{.swap_ready = true}, {.swap_ready = true}, {.swap_ready = true}}).all_ready);
  CHECK(sum_of({{.swap_ready = true, .plan_stops = true}, {.swap_ready = true}}).plan_stops);
  CHECK_FALSE(sum_of({{.swap_ready = true, .plan_stops = true}, {}}).plan_stops);
  CHECK_FALSE(sum_of({{.wants_stop = true}, {}}).all_stop);
  CHECK(sum_of({{.wants_stop = true}, {.wants_stop = true}}).all_stop);
  CHECK_FALSE(sum_of({{}, {}}).any_ends_data);
  CHECK(sum_of({{}, {.ends_data = true}}).any_ends_data);
}

TEST_CASE("the loss of a step is the mean over samples, and the slowest rank is known to all") {
  const auto all = sum_of({{.loss = 2, .loss_samples = 30, .compute_us = 10},
                           {.compute_us = 50},
                           {.loss = 4, .loss_samples = 10, .compute_us = 20}});
  CHECK(all.has_loss);
  CHECK(all.loss == 2.5);
  CHECK(all.slowest_rank == 1);
  CHECK(all.slowest_compute_us == 50);
}

struct Training {
  Training() {
    assignment.shares = {{WorkerId{1}, 4}, {WorkerId{2}, 4}, {WorkerId{3}, 4}};
    run_progress.begin(assignment.shares, 1);
  }
  StepDivision divided() const { return divide_step(run_progress, assignment, WorkerId{1}, true); }

  DataOptions data{.sample_count = 100, .epochs = 1, .batch = 4};
  RunProgress run_progress{data};
  Assignment assignment;
};

TEST_CASE(
    "a share without a gradient counts neither in the repeated step nor in those that a later generation divides") {
  Training run;
  CHECK(run.divided().counted == 12);
  run.assignment.repeats_step = true;
  run.assignment.holders = {WorkerId{1}, WorkerId{2}};
  CHECK(run.divided().counted == 8);
  run.run_progress.drop_shares_without_gradients(run.assignment);
  // A second recovery of the same step finds more holders: the share stays lost, for its samples may have been
  // returned.
  run.assignment.holders = {WorkerId{1}, WorkerId{2}, WorkerId{3}};
  CHECK(run.divided().counted == 8);
  CHECK(run.divided().counts == std::vector<std::uint64_t>{4, 4, 0});
  CHECK(run.divided().uncounted.size() == 1);
}

TEST_CASE("every worker knows the weights of all, in the order of the present ranks") {
  Training training;
  CHECK(training.divided().weights(training.assignment) == std::vector<float>(3, 1.0F / 3));
  training.assignment.shares = {{WorkerId{3}, 4}, {WorkerId{9}, 0}, {WorkerId{1}, 4}};
  training.assignment.repeats_step = true;
  training.assignment.holders = {WorkerId{1}, WorkerId{3}};
  const StepDivision step = training.divided();
  CHECK(step.weights(training.assignment) == std::vector<float>{0.5F, 0, 0.5F});
  CHECK(step.weights(training.assignment)[2] == step.my_weight());
  training.assignment.holders = {};
  CHECK(training.divided().weights(training.assignment) == std::vector<float>(3, 0.0F));
}

TEST_CASE("gradients of 16 bits are exchanged within a host, and between hosts of few workers") {
  const auto pays = [](const std::vector<const char*>& hosts) {
    protocol::GenerationPlan plan;
    for (const char* host : hosts) plan.members.push_back({.endpoint = {.host_key = host}});
    return pays_to_exchange_narrow(plan);
  };
  CHECK(pays({"a", "a", "a", "a"}));
  CHECK(pays({"a", "b", "c"}));
  CHECK(pays({"a", "a", "b", "b"}));
  CHECK_FALSE(pays({"a", "a", "a", "b"}));
}

TEST_CASE("a joiner knows from its donors where the data have ended and models were averaged") {
  Training donors;
  donors.run_progress.commit(donors.divided(), true, donors.assignment.shares);
  CHECK_FALSE(donors.run_progress.data_is_used_up());
  donors.run_progress.end_data();
  state::TransferHeader header;
  donors.run_progress.put_into(header);
  Training joiner;
  joiner.run_progress.adopt(header);
  CHECK(joiner.run_progress.data_is_used_up());
  CHECK(joiner.run_progress.committed_step() == 1);
  CHECK(joiner.run_progress.replicas_differ() == donors.run_progress.replicas_differ());
  CHECK(joiner.run_progress.replicas_differ());
}

TEST_CASE("a worker without samples adds zeros, whatever its gradient's memory holds, in every repetition") {
  Training joiner;
  joiner.assignment.communicator = std::make_shared<SoloCommunicator>(Generation{1});
  InputCopies copies;
  StepLane lane(nullptr, joiner.assignment);
  const CollectiveGate gate(nullptr, joiner.run_progress);
  for (const bool prepared : {false, true}) {
    HostGradients gradients(true, copies, joiner.assignment, gate, lane);
    std::array<float, 2> values{std::numeric_limits<float>::quiet_NaN(), 7};
    OpenStep step;
    step.lane_sent = true;
    Bucket& bucket = step.add_bucket(values.data(), values.size());
    if (prepared) gradients.prepare_memory(step, bucket);
    REQUIRE(gradients.reduce(step, bucket));
    CHECK(values == std::array<float, 2>{0, 0});
    values = {3, 4};  // what a failed sum left behind
    REQUIRE(gradients.reduce(step, bucket));
    CHECK(values == std::array<float, 2>{0, 0});
  }
}

}  // namespace
}  // namespace elastictrain::session
