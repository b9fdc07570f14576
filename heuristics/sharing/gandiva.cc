// Gandiva (OSDI'18) without hosts: jobs run at the size that they ask for, in time slices. Those that fit run;
// at the end of a slice the jobs that ran go to the tail of the queue. While nobody waits, idle slots are lent to
// running jobs, up to the slots of one server (8), the smallest first; an arrival takes them back at once. With
// Settings::packs a job that waits may share the slots of one that runs, where both together then do more (pairs.h);
// a pair takes its turns together. Migration and the choice of hosts need hosts, which a pool of slots has not.
#include <algorithm>
#include <unordered_map>

#include "heuristics/sharing/fill.h"
#include "heuristics/sharing/pairs.h"
#include "heuristics/sharing/policies.h"

namespace elastictrain::heuristics::sharing {
namespace {

constexpr std::uint32_t kServerSlots = 8;
constexpr double kLooksInSlice = 4;

struct Rotation final : State {
  std::unordered_map<std::uint64_t, std::uint64_t> tickets;  // by job: the smallest goes first
  std::uint64_t next = 0;
  double slice_end_s = 0;
  Pairs pairs;
  std::unique_ptr<State> clone() const override { return std::make_unique<Rotation>(*this); }
};

class Gandiva final : public SharingPolicy {
 public:
  Gandiva(double slice_s, bool packs) : slice_s_(slice_s), packs_(packs) {}
  std::unique_ptr<State> initial_state() const override { return std::make_unique<Rotation>(); }

  void decide(const View& view, State& state, Rng&, Decision& decision) const override {
    auto& rotation = static_cast<Rotation&>(state);
    for (const EndedJob& job : view.ended) rotation.tickets.erase(job.id);
    const bool new_slice = view.now_s >= rotation.slice_end_s;
    if (new_slice) rotation.slice_end_s = view.now_s + slice_s_;
    Pairs& pairs = rotation.pairs;
    if (packs_) pairs.look(view);
    const auto order = order_of(view, rotation, new_slice);
    std::uint32_t free = view.slots;
    bool waiting = false;
    for (const std::uint32_t place : order) {
      if (pairs.is_guest(view.jobs[place].id)) continue;
      const std::uint32_t size = std::min(view.jobs[place].requested, most_slots(view, view.jobs[place]));
      waiting = waiting || size > free;
      if (size > free) continue;
      decision.grants[place] = {static_cast<double>(size), Why::kTurn, rotation.slice_end_s};
      free -= size;
    }
    if (packs_) pack(view, order, waiting, free, pairs, decision);
    if (waiting) decision.again_s = rotation.slice_end_s;
    if (packs_ && (waiting || pairs.any())) {
      decision.again_s = std::min(decision.again_s, view.now_s + slice_s_ / kLooksInSlice);
    }
    if (!waiting && !pairs.any()) lend(view, free, decision);
  }

 private:
  // `waiting`: somebody does, at first without guests, in the end with pairs that were made for them.
  static void pack(const View& view, const std::vector<std::uint32_t>& order, bool& waiting, std::uint32_t& free,
                   Pairs& pairs, Decision& decision) {
    pairs.grant(view, waiting, free, decision);
    if (waiting) pairs.add(view, order, decision);
    pairs.explain(decision);
    waiting = std::any_of(decision.grants.begin(), decision.grants.end(),
                          [](const Grant& grant) { return grant.slots == 0; });
  }

  // In a new slice those that ran go behind the others; within one they stay.
  static std::vector<std::uint32_t> order_of(const View& view, Rotation& rotation, bool new_slice) {
    std::vector<std::uint32_t> order(view.jobs.size());
    for (std::uint32_t place = 0; place < order.size(); ++place) {
      order[place] = place;
      const JobView& job = view.jobs[place];
      const bool is_new = rotation.tickets.try_emplace(job.id, rotation.next).second;
      if (is_new) ++rotation.next;
    }
    const auto ticket = [&](std::uint32_t place) { return rotation.tickets.at(view.jobs[place].id); };
    const auto first = [&](std::uint32_t a, std::uint32_t b) {
      const bool a_runs = view.jobs[a].held > 0, b_runs = view.jobs[b].held > 0;
      return a_runs != b_runs ? a_runs != new_slice : ticket(a) < ticket(b);
    };
    std::sort(order.begin(), order.end(), first);
    for (const std::uint32_t place : order) {
      if (new_slice && view.jobs[place].held > 0) rotation.tickets[view.jobs[place].id] = rotation.next++;
    }
    return order;
  }

  static void lend(const View& view, std::uint32_t free, Decision& decision) {
    FirstOf order;
    const auto most = [&](std::uint32_t place) { return std::min(most_slots(view, view.jobs[place]), kServerSlots); };
    for (std::uint32_t place = 0; place < view.jobs.size(); ++place) {
      if (decision.grants[place].slots < most(place)) order.add(decision.grants[place].slots, place);
    }
    order.order();
    for (; free > 0 && !order.empty(); --free) {
      const std::uint32_t place = order.first().place;
      const double slots = ++decision.grants[place].slots;
      if (slots < most(place)) {
        order.change_first(slots);
      } else {
        order.take_first();
      }
    }
  }

  double slice_s_;
  bool packs_;
};

}  // namespace

std::unique_ptr<SharingPolicy> make_gandiva(double slice_s, bool packs) {
  return std::make_unique<Gandiva>(slice_s, packs);
}

}  // namespace elastictrain::heuristics::sharing
