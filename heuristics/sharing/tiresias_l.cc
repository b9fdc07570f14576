// Tiresias-L (NSDI'19; queues and limits as in its simulator): least attained service in three queues. A new job joins
// the tail of the first queue. A running job that has used a queue's limit of slot-seconds moves to the tail of the
// next; it reaches the limit after ceil(limit / slots) seconds of running, and is looked at then. Queues are walked
// from the top; what fits runs. Afterwards the running jobs of a queue stand before its waiting ones. Nobody goes up.
//
// Whether a limit is reached is looked at after every event, by service, and not only after the rounded time: of the
// possible readings this one was chosen because it reproduces the published figures of Muri's simulator.
#include <algorithm>
#include <array>
#include <unordered_map>

#include "heuristics/sharing/policies.h"

namespace elastictrain::heuristics::sharing {
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
