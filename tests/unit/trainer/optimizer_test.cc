#include "train/builtin/optimizer.h"

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

using namespace elastictrain::train;

namespace {

using Floats = std::vector<float>;

// The data that a new worker receives: every state buffer, byte for byte.
void copy_state(Optimizer& from, Optimizer& to) {
  const auto source = from.state();
  const auto target = to.state();
  REQUIRE(source.size() == target.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    REQUIRE(source[i].bytes == target[i].bytes);
    std::memcpy(target[i].data, source[i].data, source[i].bytes);
  }
}

}  // namespace

TEST_CASE("plain SGD steps against the gradient and has no state") {
  Sgd sgd(2, 0, 0);
  Floats p = {1, -1};
  sgd.update(p, Floats{0.5F, 2}, 0.25);
  CHECK(p == Floats{0.875F, -1.5F});
  CHECK(sgd.state().empty());
}

TEST_CASE("momentum sums past gradients") {
  Sgd sgd(1, 0.5, 0);
  Floats p = {1};
  sgd.update(p, Floats{1}, 0.25);     // v = 1
  sgd.update(p, Floats{0.5F}, 0.25);  // v = 0.5 + 0.5 = 1
  sgd.update(p, Floats{0}, 0.25);     // v = 0.5
  CHECK(p == Floats{1 - 0.25F - 0.25F - 0.125F});
}

TEST_CASE("weight decay pulls towards zero") {
  Sgd sgd(1, 0, 0.5);
  Floats p = {4};
  sgd.update(p, Floats{0}, 0.25);
  CHECK(p == Floats{3.5F});
}

TEST_CASE("Adam follows its formula for two steps") {
  Adam adam(1, 0);
  Floats p = {1};
  // Step 1: m = 0.05, v = 0.00025; corrected 0.5 and 0.25: p -= 0.1 * 0.5 / 0.5.
  adam.update(p, Floats{0.5F}, 0.1);
  CHECK(p[0] == doctest::Approx(0.9).epsilon(1e-6));
  // Step 2, gradient -1: m = 0.045 - 0.1 = -0.055, v = 0.00024975 + 0.001 = 0.00124975;
  // corrected -0.055 / 0.19 = -0.2894737 and 0.00124975 / 0.001999 = 0.6251876.
  adam.update(p, Floats{-1}, 0.1);
  CHECK(p[0] == doctest::Approx(0.9 + 0.1 * 0.2894737 / 0.7906881).epsilon(1e-6));
}

TEST_CASE("an optimizer that receives another's state continues bit-identically") {
  for (const OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kAdam}) {
    TrainerOptions options;
    options.optimizer = kind;
    const auto old_one = make_optimizer(options, 3);
    const auto new_one = make_optimizer(options, 3);
    Floats p = {1, 2, 3};
    for (int i = 0; i < 5; ++i) old_one->update(p, Floats{0.1F, -0.2F, 0.3F * static_cast<float>(i)}, 0.01);
    Floats q = p;
    copy_state(*old_one, *new_one);
    for (int i = 0; i < 5; ++i) {
      old_one->update(p, Floats{0.7F, 0.2F, -0.3F}, 0.01);
      new_one->update(q, Floats{0.7F, 0.2F, -0.3F}, 0.01);
    }
    CHECK(p == q);
  }
}
