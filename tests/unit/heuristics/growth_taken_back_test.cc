// What policies decide while the workers of a growth of theirs still start, and the steps of the others change. The
// views are those of a live run.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "heuristics/autoscale/or_engine.h"
#include "heuristics/autoscale/provisioning.h"
#include "heuristics/autoscale/search_policy.h"
#include "heuristics/batch/noise_batch.h"
#include "heuristics/compose/compose.h"
#include "heuristics/goodput/goodput_policy.h"
#include "heuristics/policy/per_job.h"
#include "heuristics/scavenger/scavenger_policy.h"
#include "tests/unit/heuristics/batch/batch_job.h"

namespace elastictrain::heuristics {
namespace {

using testing::BatchJob;
using testing::BatchLoop;
using testing::make_policy;

struct Terms {
  double start_s = 60;
  double view_every_s = 1;
  double sample_s = 0.004;
  double samples_total = 600'000;
  double noise = 0.02;      // of a step
  std::uint32_t least = 1;  // workers
};

// A job whose workers share a batch of 32 samples, with an exchange that the test sets. So two workers compute for 64
// ms, three for 43 ms, four for 32 ms.
class Growing {
 public:
  Growing(const PolicySpec& spec, const Parameters& parameters, std::uint32_t workers, const Terms& terms = {})
      : terms_(terms), policy_(make_policy(spec, parameters)), loop_(*policy_, model(workers), 1) {}

  // Until workers beside these start.
  void wait_for_growth(std::uint32_t from) {
    const auto& live = loop_.live();
    while (!(live.gathering && live.world_size == from && live.target_size > from)) {
      REQUIRE(end_s_ < 3600);
      train(terms_.view_every_s);
    }
  }

  void train(double seconds) {
    end_s_ += seconds;
    run_ = loop_.run(end_s_);
  }

  std::uint32_t target() const { return loop_.live().target_size; }
  std::uint32_t largest() const { return std::max_element(run_.settings.begin(), run_.settings.end())->first; }

  double exchange_s = 0.001;
  double slower = 1;  // of all parts of a step

 private:
  BatchJob model(std::uint32_t workers) {
    BatchJob model;
    model.step_s = [this](std::uint32_t size, double batch) {
      return slower * (terms_.sample_s * batch + (size > 1 ? exchange_s : 0));
    };
    model.noise = terms_.noise;
    model.change_s = terms_.start_s;
    model.view_every_s = terms_.view_every_s;
    model.slots_per_host = 4;
    model.job.workers = workers;
    model.job.min_workers = terms_.least;
    model.job.max_workers = 4;
    model.job.batch.per_worker = 16;
    model.job.batch.max_global = 32;
    model.job.base_batch = 16 * workers;
    model.job.samples_total = terms_.samples_total;
    return model;
  }

  Terms terms_;
  std::unique_ptr<Policy> policy_;
  BatchLoop loop_;
  testing::BatchRun run_;
  double end_s_ = 0;
};

// Whether a growth stands for as long as its workers start, and is taken back if the exchange becomes that long.
void check_taken_back(const PolicySpec& spec, const Parameters& parameters, std::uint32_t start, std::uint32_t from,
                      double exchange_s, const Terms& terms = {}) {
  CAPTURE(spec.name);
  for (const bool changes : {false, true}) {
    CAPTURE(changes);
    Growing job(spec, parameters, start, terms);
    job.wait_for_growth(from);
    if (changes) job.exchange_s = exchange_s;
    job.train(terms.start_s * 11 / 12);
    CHECK((job.target() <= from) == changes);
    job.train(3 * terms.start_s);
    CHECK((job.largest() <= from) == changes);
  }
}

// From two workers to four the marginal efficiency was log2(65/33) = 0.98, and is log2(264/232) = 0.19. With a second
// worth as much as two workers, four lose (2 + 4) x 33 ms instead of (2 + 2) x 65 ms for a batch, now 1.39 s instead
// of 1.06 s.
TEST_CASE("efficiency and cost take a growth back that no longer pays") {
  check_taken_back(efficiency_policy(), {}, 2, 2, 0.2);
  const Parameters worth{{"utility", std::string("linear:2,3600")}};  // an hour; one of a worker costs 1
  check_taken_back(cost_policy(), worth, 2, 2, 0.2);
}

// With days to go even little that may be gained is worth a look. But steps become twelve times as long, one between
// two views, so that a job that has just changed and may change again is no longer one for which the days count.
TEST_CASE("efficiency and cost take a growth back that no longer pays, however long the job is") {
  const Terms days{
      .start_s = 12, .view_every_s = 0.2, .sample_s = 0.001, .samples_total = 1e9, .noise = 0.001, .least = 2};
  check_taken_back(efficiency_policy(), {}, 2, 2, 0.2, days);
  const Parameters worth{{"utility", std::string("linear:2,3600")}};
  check_taken_back(cost_policy(), worth, 2, 2, 0.2, days);
}

// Two workers made 492 samples a second, one 250 with its 16. Now they make 121, and the mean of all steps falls below
// the 375 that an efficiency of 0.5 needs.
TEST_CASE("the engine of Or et al. takes a growth back once the sizes before it fail") {
  check_taken_back(or_policy(), {{"increment", 1.0}, {"efficiency", 0.5}, {"decide_every_steps", 10.0}}, 1, 2, 0.2);
}

// Two workers have to reach 1 + 1/6 of the 250 of one.
TEST_CASE("provisioning takes the next worker back once the last one no longer pays") {
  check_taken_back(provisioning_policy(), {{"every_steps", 20.0}}, 1, 2, 0.2);
}

// One worker takes 128 ms for 32 samples. Two took 65 ms, a utility of 0.98, above the band that ends at 0.65. Now they
// take 128 ms: 0.5.
TEST_CASE("goodput takes a growth back once the utility is within its band") {
  const Parameters parameters{{"adapt_batch", false}, {"refit_s", 1.0}, {"min_s", 0.0}, {"settle_steps", 15.0}};
  check_taken_back(goodput_policy(), parameters, 2, 2, 0.064);
}

// Of 600,000 samples two workers make 381 a second (84 ms for 32), more cheaply than three and soon enough for 2,000 s.
// At 2.5 times the time for a step they do not, and more are requested. Then steps are as before.
TEST_CASE("scavenger takes a growth back that its deadline no longer needs") {
  const Parameters parameters{{"goal", std::string("deadline")}, {"deadline_s", 2000.0}, {"reconsider_s", 10.0}};
  for (const bool recovers : {false, true}) {
    CAPTURE(recovers);
    Growing job(scavenger_policy(), parameters, 2);
    job.exchange_s = 0.02;
    job.train(500);
    REQUIRE(job.target() == 2);
    job.slower = 2.5;
    job.wait_for_growth(2);
    if (recovers) job.slower = 1;
    job.train(Terms().start_s * 11 / 12);
    CHECK((job.target() == 2) == recovers);
  }
}

class Grows final : public PerJobPolicy<int> {
  JobDecision decide_job(const ClusterView&, const JobView&, int&, Rng&) const override {
    JobDecision decision;
    decision.workers = 4;
    return decision;
  }
};

// At an efficiency of one half the batch is the noise scale: 500 samples for each of four workers, 1000 for each of
// two.
TEST_CASE("the batch follows the noise while more workers start, and is theirs") {
  BatchJob model;
  model.step_s = [](std::uint32_t, double batch) { return 0.05 + 0.001 * batch; };
  model.noise_scale = [](double) { return 2000.0; };
  model.change_s = 1000;
  model.job.workers = 2;
  model.job.max_workers = 4;
  model.job.batch.per_worker = 32;
  model.job.base_batch = 64;
  const auto policy = beside(std::make_unique<Grows>(), make_policy(noise_batch_policy()), Merge::kChanges);
  BatchLoop loop(*policy, model, 1);
  loop.run(900);
  REQUIRE(loop.live().gathering);
  CHECK(loop.live().batch.per_worker == doctest::Approx(500).epsilon(0.15));
  const auto run = loop.run(1500);
  CHECK(run.settings.size() == 2);
  CHECK(run.settings.back().first == 4);
  CHECK(run.settings.back().second == doctest::Approx(500).epsilon(0.15));
}

}  // namespace
}  // namespace elastictrain::heuristics
