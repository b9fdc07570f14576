#include "heuristics/sweep/stop_rule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <optional>

namespace elastictrain::heuristics::sweep {
namespace {

constexpr std::size_t kFewestForMedian = 3;  // others; with fewer the median is one of two accidents

std::string text_of(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

std::string after(std::uint64_t reports) {
  return "after " + std::to_string(reports) + (reports == 1 ? " report" : " reports");
}

// At `reports` reports. None: it has not come so far.
std::optional<double> score_at(const StopRule& rule, const Trial& trial, std::uint64_t reports) {
  if (trial.has_failed) return std::nan("");
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(reports, trial.reports.size()));
  if (count < reports && !trial.has_ended) return std::nullopt;
  return count == 0 ? std::nan("") : best_of(rule, trial.reports, count);
}

std::uint64_t ceil_of(std::uint64_t number, std::uint64_t by) {
  return (number + by - 1) / by;
}

// A trial that is still in the search at some number of reports.
struct Contender {
  std::size_t trial = 0;
  bool is_sure = true;  // whatever the others will report, it is among those that have come so far
  std::optional<double> score = {};
};

// By score, equal ones by index. Both have one.
bool is_ahead(const StopRule& rule, const Contender& one, const Contender& other) {
  return is_better(rule, *one.score, *other.score) ||
         (one.trial < other.trial && !is_better(rule, *other.score, *one.score));
}

std::uint64_t count_ahead(const StopRule& rule, const std::vector<Contender>& all, const Contender& one,
                          bool sure_ones_alone) {
  return static_cast<std::uint64_t>(std::count_if(all.begin(), all.end(), [&](const Contender& other) {
    if (other.trial == one.trial || (sure_ones_alone && !other.is_sure)) return false;
    return other.score ? is_ahead(rule, other, one) : !sure_ones_alone;
  }));
}

// Those of `all` that may go on, of which `go_on` do.
std::vector<Contender> those_left(const StopRule& rule, std::vector<Contender> all, const std::vector<Trial>& trials,
                                  std::uint64_t reports, std::uint64_t go_on, std::vector<Verdict>& verdicts) {
  for (Contender& one : all) one.score = score_at(rule, trials[one.trial], reports);
  std::vector<Contender> left;
  for (const Contender& one : all) {
    const std::uint64_t ahead = one.score ? count_ahead(rule, all, one, true) : 0;
    if (ahead < go_on) {
      left.push_back(one);
      left.back().is_sure = one.is_sure && one.score && count_ahead(rule, all, one, false) < go_on;
    } else if (!trials[one.trial].has_ended && !trials[one.trial].has_failed) {
      verdicts.push_back({one.trial, text_of(*one.score) + " " + after(reports) + ": " + std::to_string(ahead) +
                                         (ahead == 1 ? " is ahead, and " : " are ahead, and ") + std::to_string(go_on) +
                                         (go_on == 1 ? " goes on" : " go on")});
    }
  }
  return left;
}

std::vector<Verdict> by_halving(const StopRule& rule, const std::vector<Trial>& trials) {
  std::vector<Verdict> verdicts;
  std::vector<Contender> contenders;
  for (std::size_t i = 0; i < trials.size(); ++i) contenders.push_back({.trial = i});
  std::uint64_t reports = rule.first;
  for (std::uint64_t go_on = trials.size(); go_on > 1;) {
    go_on = ceil_of(go_on, rule.factor);
    contenders = those_left(rule, std::move(contenders), trials, reports, go_on, verdicts);
    if (reports > UINT64_MAX / rule.factor) break;
    reports *= rule.factor;
  }
  return verdicts;
}

// The median of the means of what the others had by then.
std::optional<double> median_of_others(const StopRule& rule, const std::vector<Trial>& trials, std::size_t one,
                                       std::size_t reports) {
  std::vector<double> means;
  for (std::size_t other = 0; other < trials.size(); ++other) {
    const auto& theirs = trials[other].reports;
    if (other == one || trials[other].has_failed || theirs.size() < reports) continue;
    const double sum = std::accumulate(theirs.begin(), theirs.begin() + static_cast<std::ptrdiff_t>(reports), 0.0);
    means.push_back(sum / static_cast<double>(reports));
  }
  if (means.size() < kFewestForMedian) return std::nullopt;
  std::sort(means.begin(), means.end(), [&](double a, double b) { return is_better(rule, a, b); });
  return means[means.size() / 2];
}

std::vector<Verdict> by_median(const StopRule& rule, const std::vector<Trial>& trials) {
  std::vector<Verdict> verdicts;
  for (std::size_t one = 0; one < trials.size(); ++one) {
    const Trial& trial = trials[one];
    if (trial.has_ended || trial.has_failed) continue;
    for (std::size_t count = rule.first; count <= trial.reports.size(); ++count) {
      const auto median = median_of_others(rule, trials, one, count);
      const double best = best_of(rule, trial.reports, count);
      if (!median || !is_better(rule, *median, best)) continue;
      verdicts.push_back(
          {one, text_of(best) + " " + after(count) + " is worse than the others' median, " + text_of(*median)});
      break;
    }
  }
  return verdicts;
}

}  // namespace

bool is_better(const StopRule& rule, double one, double other) {
  if (std::isnan(one)) return false;
  if (std::isnan(other)) return true;
  return rule.higher_is_better ? one > other : one < other;
}

double best_of(const StopRule& rule, const std::vector<double>& reports, std::size_t count) {
  double best = reports.front();
  for (std::size_t i = 1; i < count; ++i) {
    if (is_better(rule, reports[i], best)) best = reports[i];
  }
  return best;
}

std::vector<Verdict> trials_to_stop(const StopRule& rule, const std::vector<Trial>& trials) {
  std::vector<Verdict> verdicts;
  if (rule.kind == StopRule::Kind::kHalving) verdicts = by_halving(rule, trials);
  if (rule.kind == StopRule::Kind::kMedian) verdicts = by_median(rule, trials);
  std::sort(verdicts.begin(), verdicts.end(), [](const auto& a, const auto& b) { return a.trial < b.trial; });
  return verdicts;
}

std::vector<std::size_t> ranking(const StopRule& rule, const std::vector<Trial>& trials) {
  std::vector<std::size_t> ranked;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    if (!trials[i].reports.empty() && !trials[i].has_failed) ranked.push_back(i);
  }
  const auto best = [&](std::size_t i) { return best_of(rule, trials[i].reports, trials[i].reports.size()); };
  std::stable_sort(ranked.begin(), ranked.end(),
                   [&](std::size_t a, std::size_t b) { return is_better(rule, best(a), best(b)); });
  return ranked;
}

}  // namespace elastictrain::heuristics::sweep
