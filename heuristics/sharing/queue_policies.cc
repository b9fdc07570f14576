#include "heuristics/sharing/queue_policies.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <unordered_map>

#include "heuristics/sharing/policy.h"
#include "heuristics/sharing/service_history.h"

namespace elastictrain::heuristics::sharing {
namespace {

bool goes_later(const Keyed& a, const Keyed& b) {
  return a.key != b.key ? a.key > b.key : a.place > b.place;
}

}  // namespace

std::uint32_t grant_in_order(const View& view, std::vector<Keyed>& order, std::uint32_t free, Decision& decision) {
  std::map<std::uint32_t, std::size_t> left;  // jobs by request
  for (const Keyed& one : order) ++left[view.jobs[one.place].requested];
  std::make_heap(order.begin(), order.end(), goes_later);
  while (!left.empty() && left.begin()->first <= free) {
    std::pop_heap(order.begin(), order.end(), goes_later);
    const Keyed next = order.back();
    order.pop_back();
    const std::uint32_t requested = view.jobs[next.place].requested;
    const auto same = left.find(requested);
    if (--same->second == 0) left.erase(same);
    if (requested > free) continue;
    decision.grants[next.place] = {static_cast<double>(requested), Why::kFits, next.key};
    free -= requested;
  }
  return free;
}

// First in, first out, strictly: a job that does not fit holds back those behind it.
namespace {

class Fifo final : public SharingPolicy {
 public:
  void decide(const View& view, State&, Rng&, Decision& decision) const override {
    std::uint32_t free = view.slots;
    for (std::size_t place = 0; place < view.jobs.size(); ++place) {
      const std::uint32_t requested = view.jobs[place].requested;
      if (requested > free) return;
      decision.grants[place] = {static_cast<double>(requested), Why::kFits, 0};
      free -= requested;
    }
  }
};

}  // namespace

std::unique_ptr<SharingPolicy> make_fifo() {
  return std::make_unique<Fifo>();
}

// Shortest remaining time (SRTF) or service (SRSF: time x slots) at the requested size, preemptive. What fits runs.
namespace {

class Shortest final : public SharingPolicy {
 public:
  explicit Shortest(bool service) : service_(service) {}

  void decide(const View& view, State&, Rng&, Decision& decision) const override {
    std::vector<Keyed> order(view.jobs.size());
    for (std::uint32_t place = 0; place < order.size(); ++place) order[place] = {key(view.jobs[place]), place};
    grant_in_order(view, order, view.slots, decision);
  }

 private:
  double key(const JobView& job) const {
    return job.remaining / job.curve->as_is(job.requested) * (service_ ? job.requested : 1);
  }

  bool service_;
};

}  // namespace

std::unique_ptr<SharingPolicy> make_srtf() {
  return std::make_unique<Shortest>(false);
}

std::unique_ptr<SharingPolicy> make_srsf() {
  return std::make_unique<Shortest>(true);
}

// Tiresias-G (NSDI'19): jobs of unknown length in the order of the index P/E with a quantum of 3250 slot-seconds, from
// what the jobs that have ended needed: P, the chance to end within the quantum; E, what the job is expected to use of
// it (the standard form: of what it needs beyond what it has attained). The index is looked at again after every
// quantum that a job has used. Jobs beyond everything that is known form the last queue, first in, first out; so do all
// jobs until one has ended. What fits runs.
namespace {

constexpr double kQuantum_slot_s = 3250;
constexpr double kUsedUp_slot_s = 1e-4;  // of a quantum: rounding of sums of times

struct History final : State {
  ServiceHistory services;
  std::unique_ptr<State> clone() const override { return std::make_unique<History>(*this); }
};

double quanta_used(const JobView& job) {
  return std::floor((job.attained_slot_s + kUsedUp_slot_s) / kQuantum_slot_s);
}

class TiresiasG final : public SharingPolicy {
 public:
  std::unique_ptr<State> initial_state() const override { return std::make_unique<History>(); }

  void decide(const View& view, State& state, Rng&, Decision& decision) const override {
    ServiceHistory& services = static_cast<History&>(state).services;
    for (const EndedJob& job : view.ended) services.add(job.attained_slot_s);
    std::vector<Keyed> order(view.jobs.size());
    for (std::uint32_t place = 0; place < order.size(); ++place) {
      const double attained = quanta_used(view.jobs[place]) * kQuantum_slot_s;
      order[place] = {-services.index(attained, kQuantum_slot_s), place};
    }
    grant_in_order(view, order, view.slots, decision);
    set_next(view, decision);
  }

 private:
  static void set_next(const View& view, Decision& decision) {
    const bool waiting =
        std::any_of(decision.grants.begin(), decision.grants.end(), [](const Grant& g) { return g.slots == 0; });
    for (std::size_t place = 0; waiting && place < view.jobs.size(); ++place) {
      const JobView& job = view.jobs[place];
      if (decision.grants[place].slots == 0) continue;
      const double rest = (quanta_used(job) + 1) * kQuantum_slot_s - job.attained_slot_s;
      decision.again_s = std::min(decision.again_s, view.now_s + rest / decision.grants[place].slots);
    }
  }
};

}  // namespace

std::unique_ptr<SharingPolicy> make_tiresias_g() {
  return std::make_unique<TiresiasG>();
}

// Tiresias-L (NSDI'19; queues and limits as in its simulator): least attained service in three queues. A new job joins
// the tail of the first queue. A running job that has used a queue's limit of slot-seconds moves to the tail of the
// next; it reaches the limit after ceil(limit / slots) seconds of running, and is looked at then. Queues are walked
// from the top; what fits runs. Afterwards the running jobs of a queue stand before its waiting ones. Nobody goes up.
//
// Whether a limit is reached is looked at after every event, by service, and not only after the rounded time: of the
// possible readings this one was chosen because it reproduces the published figures of Muri's simulator.
namespace {

constexpr std::array<double, 2> kLimits_slot_s = {3250, 7200};
// Seconds of rounding that a sum of running times may have.
constexpr double kSlack_s = 1e-6;

using Queue = std::vector<std::uint64_t>;  // ids of jobs

struct Queues final : State {
  std::array<Queue, kLimits_slot_s.size() + 1> queues;
  std::uint64_t newest = 0;  // ids up to here are in the queues
  bool any = false;
  std::unique_ptr<State> clone() const override { return std::make_unique<Queues>(*this); }
};

double limit_s(const JobView& job, std::size_t queue) {
  return std::ceil(kLimits_slot_s[queue] / job.requested);
}

class TiresiasL final : public SharingPolicy {
 public:
  std::unique_ptr<State> initial_state() const override { return std::make_unique<Queues>(); }

  void decide(const View& view, State& state, Rng&, Decision& decision) const override {
    auto& queues = static_cast<Queues&>(state);
    std::unordered_map<std::uint64_t, std::uint32_t> places;
    for (std::uint32_t place = 0; place < view.jobs.size(); ++place) places[view.jobs[place].id] = place;
    for (Queue& queue : queues.queues) {
      std::erase_if(queue, [&](std::uint64_t id) { return !places.contains(id); });
    }
    admit(view, queues);
    demote(view, places, queues);
    grant(view, places, queues, decision);
    set_next(view, places, queues, decision);
  }

 private:
  using Places = std::unordered_map<std::uint64_t, std::uint32_t>;

  static void admit(const View& view, Queues& queues) {
    std::uint64_t newest = queues.newest;
    for (const JobView& job : view.jobs) {
      if (queues.any && job.id <= queues.newest) continue;
      queues.queues.front().push_back(job.id);
      newest = std::max(newest, job.id);
    }
    queues.any = queues.any || !view.jobs.empty();
    queues.newest = newest;
  }

  static void demote(const View& view, const Places& places, Queues& queues) {
    for (std::size_t at = kLimits_slot_s.size(); at-- > 0;) {
      Queue stay;
      for (const std::uint64_t id : queues.queues[at]) {
        const JobView& job = view.jobs[places.at(id)];
        const bool used = job.held > 0 && job.running_s * job.requested >= kLimits_slot_s[at] - kSlack_s;
        (used ? queues.queues[at + 1] : stay).push_back(id);
      }
      queues.queues[at] = std::move(stay);
    }
  }

  static void grant(const View& view, const Places& places, Queues& queues, Decision& decision) {
    std::uint32_t free = view.slots;
    for (std::size_t at = 0; at < queues.queues.size(); ++at) {
      for (const std::uint64_t id : queues.queues[at]) {
        const std::uint32_t place = places.at(id);
        const std::uint32_t requested = view.jobs[place].requested;
        if (requested > free) continue;
        decision.grants[place] = {static_cast<double>(requested), Why::kQueue, static_cast<double>(at)};
        free -= requested;
      }
      std::stable_partition(queues.queues[at].begin(), queues.queues[at].end(),
                            [&](std::uint64_t id) { return decision.grants[places.at(id)].slots > 0; });
    }
  }

  static void set_next(const View& view, const Places& places, const Queues& queues, Decision& decision) {
    for (std::size_t at = 0; at < kLimits_slot_s.size(); ++at) {
      for (const std::uint64_t id : queues.queues[at]) {
        const std::uint32_t place = places.at(id);
        if (decision.grants[place].slots == 0) break;
        const JobView& job = view.jobs[place];
        decision.again_s = std::min(decision.again_s, view.now_s + limit_s(job, at) - job.running_s);
      }
    }
  }
};

}  // namespace

std::unique_ptr<SharingPolicy> make_tiresias_l() {
  return std::make_unique<TiresiasL>();
}

}  // namespace elastictrain::heuristics::sharing
