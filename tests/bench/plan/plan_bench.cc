// Purpose: how well step times, epochs, and with them time and cost, are predicted where nothing was measured, how far
// from the best point a plan then ends, and how near the noise scale comes to a known one. plan_bench CURVES; one JSON
// object a line.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <map>
#include <random>
#include <set>
#include <string>

#include "heuristics/noise/noise_scale.h"
#include "heuristics/scavenger/epochs_model.h"
#include "heuristics/scavenger/plan_curve.h"
#include "heuristics/scavenger/search.h"
#include "heuristics/scavenger/step_time_model.h"
#include "tests/bench/plan/pollux_tables.h"
#include "tests/unit/heuristics/noise/noisy_gradients.h"

namespace elastictrain::plan_bench {
namespace {

using namespace heuristics;
using Points = std::vector<StepTimePoint>;

struct Split {
  Points known;
  Points held_out;
};

struct Error {
  double sum = 0;
  double worst = 0;
  std::size_t count = 0;
  void add(double predicted, double measured) {
    const double error = std::abs(predicted / measured - 1);
    sum += error;
    worst = std::max(worst, error);
    ++count;
  }
  double percent() const { return count > 0 ? 100 * sum / static_cast<double>(count) : 0; }
};

// Every point is held out once, a fifth of the points at a time.
std::vector<Split> fifths(Points points) {
  std::mt19937_64 rng(1);
  for (std::size_t i = points.size(); i > 1; --i) std::swap(points[i - 1], points[rng() % i]);
  std::vector<Split> splits(5);
  for (std::size_t i = 0; i < points.size(); ++i)
    for (std::size_t fold = 0; fold < splits.size(); ++fold)
      (i % splits.size() == fold ? splits[fold].held_out : splits[fold].known).push_back(points[i]);
  return splits;
}

SearchSpace space_of(const Points& points) {
  std::set<std::uint32_t> workers;
  std::set<std::uint32_t> batches;
  for (const auto& point : points) {
    workers.insert(point.workers);
    batches.insert(static_cast<std::uint32_t>(point.local_batch));
  }
  return {{workers.begin(), workers.end()}, {batches.begin(), batches.end()}};
}

// The points of the partial search. If a batch does not fit into memory, the largest of that size that fits.
Split partial(const Points& points) {
  Split split;
  std::set<std::pair<std::uint32_t, double>> taken;
  for (const auto& wanted : search_points(space_of(points), SearchMode::kPartial, {1, 1})) {
    const StepTimePoint* best = nullptr;
    for (const auto& point : points)
      if (point.workers == wanted.workers && point.local_batch <= wanted.local_batch) best = &point;
    if (best) taken.emplace(best->workers, best->local_batch);
  }
  for (const auto& point : points)
    (taken.contains({point.workers, point.local_batch}) ? split.known : split.held_out).push_back(point);
  return split;
}

Split universal(const Points& points) {
  Split split;
  const auto space = space_of(points);
  const SearchPoint now{space.workers[1], space.local_batches[space.local_batches.size() / 2]};
  for (const auto& point : points) {
    const bool is_now = point.workers == now.workers && point.local_batch == now.local_batch;
    (is_now ? split.known : split.held_out).push_back(point);
  }
  split.known = universal_points(space, split.known.front());
  return split;
}

std::vector<Split> splits_of(SearchMode mode, const Points& points) {
  if (mode == SearchMode::kFull) return fifths(points);
  return {mode == SearchMode::kPartial ? partial(points) : universal(points)};
}

// full: trained with every other batch; else only with the smallest and the largest.
EpochsModel epochs_model(EpochsForm form, SearchMode mode, const std::vector<EpochsPoint>& measured) {
  std::vector<EpochsPoint> known;
  for (std::size_t i = 0; i < measured.size(); ++i)
    if (i + 1 == measured.size() || (mode == SearchMode::kFull ? i % 2 == 0 : i == 0)) known.push_back(measured[i]);
  return *EpochsModel::fit(form, known);
}

struct Forms {
  const char* name;
  StepTimeForm steps;
  EpochsForm epochs;
};

void plan_error(const std::string& curves, SearchMode mode, const char* mode_name, const Forms& forms,
                std::uint32_t workers_per_host) {
  double steps_sum = 0;
  double time_sum = 0;
  std::string each;
  for (const auto& model : pollux_models()) {
    const auto points = step_times(curves, model, workers_per_host);
    const auto epochs = epochs_by_batch(curves, model);
    const auto statistical = epochs_model(forms.epochs, mode, epochs);
    Error steps;
    Error time;
    std::size_t known = 0;
    for (const auto& split : splits_of(mode, points)) {
      const auto fitted = *StepTimeModel::fit(forms.steps, split.known, workers_per_host);
      known = mode == SearchMode::kUniversal ? 1 : split.known.size();
      for (const auto& point : split.held_out) {
        const double predicted = fitted.seconds(point.workers, point.local_batch);
        steps.add(predicted, point.seconds);
        const double global = point.workers * point.local_batch;
        const double needed = epochs_between(epochs, global);
        // Steps are samples over the batch, the same on both sides, and the cost is time times a known price.
        if (needed > 0) time.add(predicted * statistical.epochs(global), point.seconds * needed);
      }
    }
    steps_sum += steps.percent() / static_cast<double>(pollux_models().size());
    time_sum += time.percent() / static_cast<double>(pollux_models().size());
    char text[120];
    std::snprintf(text, sizeof text, "%s%s %.1f (%zu of %zu measured)", each.empty() ? "" : ", ", model.c_str(),
                  time.percent(), known, points.size());
    each += text;
  }
  std::printf(R"({"kind":"plan-error","mode":"%s","form":"%s","workers_per_host":%u,"steps_percent":%.4f,)"
              R"("time_percent":%.4f,"models":"%s"})"
              "\n",
              mode_name, forms.name, workers_per_host, steps_sum, time_sum, each.c_str());
}

// Time and cost of the table's points, as measured or as the models predict those that a search omitted.
std::vector<PlanPoint> table_points(const Points& points, const std::vector<EpochsPoint>& epochs,
                                    const StepTimeModel* model, const EpochsModel& statistical, const Points& known) {
  std::vector<SearchPoint> candidates;
  for (const auto& point : points)
    if (epochs_between(epochs, point.workers * point.local_batch) > 0)
      candidates.push_back({point.workers, static_cast<std::uint32_t>(point.local_batch)});
  PriceRule prices;
  prices.per_s = [](std::uint32_t workers) { return double(workers); };
  const auto any = StepTimeModel::fit(StepTimeForm::kPaperPerWorker, points);
  auto planned = plan_points(candidates, model ? *model : *any, {1e6, statistical}, prices, model ? known : points);
  if (model) return planned;
  for (auto& point : planned) {
    const auto global = static_cast<double>(point.global_batch);
    point.epochs = epochs_between(epochs, global);
    point.seconds = point.epochs * 1e6 / global * point.step_s;
    point.cost = prices.cost(point);
  }
  return planned;
}

// What following the plan of a search costs above the best point there is.
void plan_choice(const std::string& curves, SearchMode mode, const char* mode_name, const Forms& forms) {
  std::map<Goal, Error> regrets;
  for (const auto& model : pollux_models()) {
    for (const std::uint32_t workers_per_host : {1U, 2U, 4U}) {
      const auto points = step_times(curves, model, workers_per_host);
      const auto epochs = epochs_by_batch(curves, model);
      const auto split = mode == SearchMode::kFull ? Split{points, {}} : splits_of(mode, points).front();
      const auto steps = *StepTimeModel::fit(forms.steps, split.known, workers_per_host);
      const auto known = mode == SearchMode::kUniversal ? Points{} : split.known;
      const auto planned = table_points(points, epochs, &steps, epochs_model(forms.epochs, mode, epochs), known);
      const auto truth = table_points(points, epochs, nullptr, EpochsModel(1), {});
      for (const Goal goal : {Goal::kFastest, Goal::kCheapest}) {
        const auto taken = truth.at(*choose(planned, {goal}).point);
        const auto best = truth.at(*choose(truth, {goal}).point);
        regrets[goal].add(goal == Goal::kFastest ? taken.seconds : taken.cost,
                          goal == Goal::kFastest ? best.seconds : best.cost);
      }
    }
  }
  std::printf(R"({"kind":"plan-choice","mode":"%s","form":"%s","fastest_percent":%.4f,"fastest_worst_percent":%.4f,)"
              R"("cheapest_percent":%.4f,"cheapest_worst_percent":%.4f,"tables":%zu})"
              "\n",
              mode_name, forms.name, regrets[Goal::kFastest].percent(), 100 * regrets[Goal::kFastest].worst,
              regrets[Goal::kCheapest].percent(), 100 * regrets[Goal::kCheapest].worst, regrets[Goal::kFastest].count);
}

// Runs until our estimator reports an error of 4 %, at several sizes and scales, next to KungFu's on the same
// gradients.
void noise_error() {
  constexpr double kStatedError = 0.04;
  constexpr std::uint64_t kSeeds = 6;
  Error ours;
  Error kungfu;
  int negative = 0;
  double steps = 0;
  for (const std::uint32_t workers : {2U, 4U, 16U}) {
    for (const double noise_scale : {50.0, 500.0, 2000.0}) {
      for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
        heuristics::testing::NoisyGradients source({.dimensions = 1000, .noise_scale = noise_scale, .seed = seed});
        NoiseScale scale(1e9);
        KungFuNoiseScale theirs;
        while (scale.steps() < 100 || scale.relative_error().value_or(1) > kStatedError) {
          const auto seen = source.step(workers, 32);
          scale.add(seen.norms);
          theirs.add(seen.first_square, seen.norms.local_batch, seen.norms.global_square, seen.norms.global_batch);
        }
        ours.add(scale.value().value_or(0), noise_scale);
        negative += !theirs.value();
        kungfu.add(theirs.magnitude().value_or(0), noise_scale);
        steps += scale.steps();
      }
    }
  }
  std::printf(R"({"kind":"noise-scale","mean_percent":%.4f,"worst_percent":%.4f,"steps":%.1f,)"
              R"("kungfu_mean_percent":%.4f,"kungfu_worst_percent":%.4f,"kungfu_negative":%d,"runs":%zu})"
              "\n",
              ours.percent(), 100 * ours.worst, steps / static_cast<double>(ours.count), kungfu.percent(),
              100 * kungfu.worst, negative, ours.count);
}

int run(const std::string& curves) {
  const Forms forms[] = {{"components", StepTimeForm::kComponents, EpochsForm::kNoise},
                         {"paper-per-worker", StepTimeForm::kPaperPerWorker, EpochsForm::kPaper},
                         {"paper-global", StepTimeForm::kPaperGlobal, EpochsForm::kPaper}};
  const std::pair<SearchMode, const char*> modes[] = {
      {SearchMode::kFull, "full"}, {SearchMode::kPartial, "partial"}, {SearchMode::kUniversal, "universal"}};
  noise_error();
  for (const auto& [mode, name] : modes)
    for (const auto& form : forms)
      if (mode != SearchMode::kUniversal || form.steps == StepTimeForm::kComponents)
        plan_choice(curves, mode, name, form);
  for (const std::uint32_t workers_per_host : {1U, 2U, 4U})
    for (const auto& [mode, name] : modes)
      for (const auto& form : forms)
        if (mode != SearchMode::kUniversal || form.steps == StepTimeForm::kComponents)
          plan_error(curves, mode, name, form, workers_per_host);
  return 0;
}

}  // namespace
}  // namespace elastictrain::plan_bench

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: plan_bench CURVES\n");
    return 64;
  }
  try {
    return elastictrain::plan_bench::run(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "plan_bench: %s\n", error.what());
    return 1;
  }
}
