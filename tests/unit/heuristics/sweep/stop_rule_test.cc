#include "heuristics/sweep/stop_rule.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>

using namespace elastictrain::heuristics::sweep;

namespace {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

std::vector<std::size_t> stopped(const StopRule& rule, const std::vector<Trial>& trials) {
  std::vector<std::size_t> found;
  for (const Verdict& verdict : trials_to_stop(rule, trials)) found.push_back(verdict.trial);
  return found;
}

std::vector<Trial> first_reports(const std::vector<double>& values) {
  std::vector<Trial> trials;
  for (const double value : values) trials.push_back({.reports = {value}});
  return trials;
}

using Indices = std::vector<std::size_t>;

}  // namespace

TEST_CASE("of nine trials three go on past the first report, and one past the third") {
  const StopRule rule;
  auto trials = first_reports({0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9});
  CHECK(stopped(rule, trials) == Indices{0, 1, 2, 3, 4, 5});
  trials[6].reports = {0.7, 0.7, 0.95};
  trials[7].reports = {0.8, 0.8, 0.8};
  CHECK(stopped(rule, trials) == Indices{0, 1, 2, 3, 4, 5, 7});
  trials[8].reports = {0.9, 0.9, 0.9};
  CHECK(stopped(rule, trials) == Indices{0, 1, 2, 3, 4, 5, 7, 8});
  CHECK(trials_to_stop(rule, trials).back().reason == "0.9 after 3 reports: 1 is ahead, and 1 goes on");
}

TEST_CASE("nobody is stopped before so many are better that it cannot go on") {
  const StopRule rule;
  std::vector<Trial> trials(9);
  trials[0].reports = {0.1};
  trials[1].reports = {0.2};
  trials[2].reports = {0.3};
  CHECK(stopped(rule, trials).empty());
  trials[3].reports = {0.4};
  CHECK(stopped(rule, trials) == Indices{0});
}

TEST_CASE("who is far ahead in reports, but may still be stopped at an earlier number, stops nobody") {
  const StopRule rule;
  std::vector<Trial> trials(9);
  trials[0].reports = {0.2, 0.9, 0.9};
  trials[1].reports = {0.3, 0.4, 0.5};
  CHECK(stopped(rule, trials).empty());
  for (const std::size_t i : {2, 3}) trials[i].reports = {0.25};
  CHECK(stopped(rule, trials) == Indices{0});
}

TEST_CASE("a lower value is better where the metric is a loss, and no number is worse than all") {
  StopRule rule;
  rule.higher_is_better = false;
  CHECK(stopped(rule, first_reports({0.5, kNoNumber, 0.4})) == Indices{0, 1});
  rule.factor = 2;
  CHECK(stopped(rule, first_reports({0.5, kNoNumber, 0.4})) == Indices{1});
}

TEST_CASE("a trial that has ended is judged by what it has, and one that failed by nothing") {
  const StopRule rule{.first = 4};
  std::vector<Trial> trials = {{.reports = {0.9}, .has_ended = true}, {.reports = {0.1, 0.1, 0.1, 0.5}}, {}};
  CHECK(stopped(rule, trials) == Indices{1});
  trials[0].has_failed = true;
  CHECK(stopped(rule, trials).empty());
  CHECK(ranking(rule, trials) == Indices{1});
}

TEST_CASE("the best report up to a number counts, not the last one") {
  CHECK(stopped({.first = 2}, {{.reports = {0.9, 0.1}}, {.reports = {0.5, 0.5}}, {.reports = {0.2, 0.3}}}) ==
        Indices{1, 2});
}

TEST_CASE("halving keeps the same trials whatever the order in which they report") {
  std::mt19937_64 random(11);
  for (int round = 0; round < 200; ++round) {
    const std::size_t count = 2 + random() % 12;
    const StopRule rule{.first = 1 + random() % 3, .factor = 2 + random() % 3};
    std::vector<std::vector<double>> all(count);
    for (auto& reports : all) {
      for (int i = 0; i < 30; ++i) reports.push_back(static_cast<double>(random() % 1000));
    }
    std::vector<Trial> complete;
    for (const auto& reports : all) complete.push_back({.reports = reports});
    const Indices expected = stopped(rule, complete);
    std::set<std::size_t> seen;
    std::vector<Trial> trials(count);
    for (bool any = true; any;) {
      any = false;
      for (int i = 0; i < 5; ++i) {
        const std::size_t one = random() % count;
        auto& reports = trials[one].reports;
        if (!seen.contains(one) && reports.size() < 30) reports.push_back(all[one][reports.size()]);
      }
      for (const std::size_t one : stopped(rule, trials)) seen.insert(one);
      for (std::size_t one = 0; one < count; ++one)
        any = any || (!seen.contains(one) && trials[one].reports.size() < 30);
    }
    CHECK(Indices(seen.begin(), seen.end()) == expected);
    CHECK(count - expected.size() == 1);
  }
}

TEST_CASE("the median rule stops what is worse than half of the others") {
  const StopRule rule{.kind = StopRule::Kind::kMedian, .first = 2};
  std::vector<Trial> trials = {{.reports = {0.1, 0.1}}, {.reports = {0.2, 0.4}}, {.reports = {0.5, 0.5}}};
  CHECK(stopped(rule, trials).empty());  // two others are too few
  trials.push_back({.reports = {0.6, 0.6}});
  CHECK(stopped(rule, trials) == Indices{0, 1});
  CHECK(trials_to_stop(rule, trials)[0].reason == "0.1 after 2 reports is worse than the others' median, 0.5");
  trials.push_back({.reports = {0.01}});
  CHECK(stopped(rule, trials) == Indices{0, 1});
}

TEST_CASE("without a rule nobody is stopped") {
  CHECK(stopped({.kind = StopRule::Kind::kNone}, first_reports({0.1, 0.2, 0.3})).empty());
}
