// One decision for 4,000 jobs of 25 workers on average on 16,000 hosts of 8 slots, placement included: from nothing,
// and after one more arrival. One JSON object per elastic policy.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <vector>

#include "heuristics/placement/placement.h"
#include "heuristics/sharing/policy.h"

namespace elastictrain::heuristics {
namespace {

constexpr std::uint32_t kHosts = 16000, kHostSlots = 8, kWorkers = 100000;
constexpr std::size_t kJobs = 4000;
constexpr int kRounds = 5;

using Clock = std::chrono::steady_clock;

std::vector<sharing::Curve> make_curves(std::mt19937_64& rng) {
  std::vector<sharing::Curve> curves;
  for (int kind = 0; kind < 12; ++kind) {
    std::vector<sharing::Curve::Point> points;
    double rate = 0, gain = 1;
    const double decay = 0.93 + 0.0055 * kind + 1e-4 * static_cast<double>(rng() % 10);
    for (std::uint32_t slots = 1; slots <= sharing::kMaxElasticSlots; ++slots, gain *= decay)
      points.push_back({slots, rate += gain});
    curves.emplace_back(std::move(points));
  }
  return curves;
}

sharing::JobView make_job(std::uint64_t id, const std::vector<sharing::Curve>& curves, std::mt19937_64& rng) {
  sharing::JobView job;
  job.id = id;
  job.requested = 1U << (rng() % 6);
  job.curve = &curves[rng() % curves.size()];
  job.remaining = 100 + static_cast<double>(rng() % 100000);
  return job;
}

struct Round {
  double policy_ms = 0;
  double placement_ms = 0;
  std::uint32_t workers = 0;
  std::uint32_t unplaced = 0;
  std::uint32_t moved = 0;  // jobs whose size stays and whose slots do not
};

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

bool same(const std::vector<placement::Piece>& a, const std::vector<placement::Piece>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const placement::Piece& x, const placement::Piece& y) {
    return x.host == y.host && x.slots == y.slots;
  });
}

// Decides and places; `jobs` then hold what they were given.
Round decide_and_place(const sharing::SharingPolicy& policy, sharing::State& state, sharing::View& view,
                       const std::vector<std::uint32_t>& hosts, std::vector<placement::Job>& jobs) {
  Round round;
  sharing::Rng rng(1);
  sharing::Decision decision;
  auto start = Clock::now();
  decision.grants.resize(view.jobs.size());
  policy.decide(view, state, rng, decision);
  round.policy_ms = ms_since(start);
  start = Clock::now();
  jobs.resize(view.jobs.size());
  for (std::size_t job = 0; job < jobs.size(); ++job)
    jobs[job].slots = static_cast<std::uint32_t>(decision.grants[job].slots);
  const auto placed = placement::place(hosts, jobs);
  round.placement_ms = ms_since(start);
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    const bool stays = placement::Placed{jobs[job].held}.slots() == jobs[job].slots;
    round.moved += stays && !same(jobs[job].held, placed[job].pieces) ? 1 : 0;
    round.workers += placed[job].slots();
    round.unplaced += jobs[job].slots - placed[job].slots();
    jobs[job].held = placed[job].pieces;
    view.jobs[job].held = placed[job].slots();
  }
  return round;
}

void measure(const sharing::PolicySpec& spec) {
  std::vector<double> first_ms, next_ms;
  Round first, next;
  for (int i = 0; i < kRounds; ++i) {
    std::mt19937_64 rng(1);
    const auto curves = make_curves(rng);
    sharing::View view;
    view.slots = kWorkers;
    view.now_s = 1000;
    for (std::uint64_t id = 0; id < kJobs; ++id) view.jobs.push_back(make_job(id, curves, rng));
    const std::vector<std::uint32_t> hosts(kHosts, kHostSlots);
    std::vector<placement::Job> jobs;
    const auto policy = spec.make({});
    const auto state = policy->initial_state();
    first = decide_and_place(*policy, *state, view, hosts, jobs);
    view.jobs.push_back(make_job(kJobs, curves, rng));
    next = decide_and_place(*policy, *state, view, hosts, jobs);
    first_ms.push_back(first.policy_ms + first.placement_ms);
    next_ms.push_back(next.policy_ms + next.placement_ms);
  }
  std::sort(first_ms.begin(), first_ms.end());
  std::sort(next_ms.begin(), next_ms.end());
  std::printf(
      "{\"policy\": \"%s\", \"first_ms\": %.3f, \"first_policy_ms\": %.3f, \"workers\": %u, \"unplaced\": %u, "
      "\"next_ms\": %.3f, \"next_unplaced\": %u, \"moved\": %u}\n",
      spec.name.c_str(), first_ms[kRounds / 2], first.policy_ms, first.workers, first.unplaced, next_ms[kRounds / 2],
      next.unplaced, next.moved);
}

}  // namespace
}  // namespace elastictrain::heuristics

int main() {
  using namespace elastictrain::heuristics;
  for (const sharing::PolicySpec& spec : sharing::sharing_policies()) {
    if (spec.elastic && spec.name != "max-min-fluid") measure(spec);
  }
}
