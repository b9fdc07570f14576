#include "heuristics/sharing/starts.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <utility>
#include <vector>

#include "heuristics/sharing/fill.h"
#include "heuristics/sharing/view.h"

namespace elastictrain::heuristics::sharing {
namespace {

constexpr double kTrainsFor = 3;       // starts, before a job that trains is suspended, and while jobs wait
constexpr double kTrainsOnIdle = 0.5;  // starts, on slots that nobody waits for
constexpr std::uint32_t kUndoneOften = 2;
constexpr double kStillPays = 0.75;  // of what a job's slots bring on average, for those that it keeps
constexpr double kLookAgain_s = 1;   // where it is not known how long a start takes

class Holding {
 public:
  Holding(const View& view, bool elastic, Decision& decision)
      : view_(view), elastic_(elastic), decision_(decision), shares_(view.jobs.size()), free_(view.slots) {
    for (const Grant& grant : decision.grants) wanted_.push_back(static_cast<std::uint32_t>(grant.slots));
  }

  void hold() {
    if (!is_concerned()) return;
    spread();
    for (std::size_t place = 0; place < shares_.size(); ++place) {
      give(place, wanted(place) < held(place) ? std::max(wanted(place), floor_of(place)) : held(place));
    }
    count_waiting();
    begin_newcomers();
    restore([this](std::size_t place) { return settles_s(place) > view_.now_s && still_pays(place); });
    grow();
    restore([](std::size_t) { return true; });
    begin_others();
    for (std::size_t place = 0; place < shares_.size(); ++place) adopt(place);
  }

 private:
  std::uint32_t held(std::size_t place) const {
    const auto held = static_cast<std::uint32_t>(view_.jobs[place].held);
    return std::min(held, most(place));
  }
  std::uint32_t wanted(std::size_t place) const { return wanted_[place]; }
  std::uint32_t most(std::size_t place) const {
    const JobView& job = view_.jobs[place];
    return elastic_ ? std::max(most_slots(view_, job), job.least) : job.requested;
  }
  std::uint32_t least(std::size_t place) const {
    const JobView& job = view_.jobs[place];
    return elastic_ ? std::min(std::max(job.least, 1U), view_.slots) : job.requested;
  }

  bool is_concerned() const {
    double held = 0, granted = 0;
    bool any = false;
    for (std::size_t place = 0; place < shares_.size(); ++place) {
      const JobView& job = view_.jobs[place];
      const Grant& grant = decision_.grants[place];
      if (grant.beside != kNoJob || job.beside != kNoJob || grant.slots != std::floor(grant.slots)) return false;
      held += job.held;
      granted += grant.slots;
      any = any || job.starts.starting() || job.start_s > 0;
    }
    return any && held <= view_.slots && granted <= view_.slots;
  }

  // Slots that it may leave to others: it is not known whether workers there would train long enough.
  std::uint32_t spare(std::size_t place) const {
    const JobView& job = view_.jobs[place];
    if (!std::isnan(job.remaining) || wanted(place) == 0) return 0;
    if (job.held > 0 && job.done >= kTrainsFor * start_s(place) * rate(place, held(place))) return 0;
    const auto trained = static_cast<std::uint32_t>(std::max(job.held - job.starts.slots_starting(), 0.0));
    const std::uint32_t keeps = std::max(least(place), trained);
    return wanted(place) - std::min(wanted(place), keeps);
  }

  void spread() {
    if (!elastic_) return;
    // The most first, and of equal ones the older.
    std::priority_queue<std::pair<std::uint32_t, std::ptrdiff_t>> spares;
    std::uint64_t sum = 0;
    for (std::size_t place = 0; place < wanted_.size(); ++place) {
      const std::uint32_t slots = spare(place);
      if (slots > 0) spares.emplace(slots, -static_cast<std::ptrdiff_t>(place));
      sum += slots;
    }
    for (std::size_t place = 0; place < wanted_.size(); ++place) {
      if (held(place) > 0 || wanted(place) > 0 || view_.jobs[place].first_start_s != kNever) continue;
      if (sum < least(place)) return;
      for (sum -= least(place); wanted_[place] < least(place); ++wanted_[place]) {
        const auto [slots, from] = spares.top();
        spares.pop();
        --wanted_[static_cast<std::size_t>(-from)];
        if (slots > 1) spares.emplace(slots - 1, from);
      }
    }
  }

  void give(std::size_t place, std::uint32_t slots) {
    free_ -= slots;
    shares_[place] += slots;
  }

  // What the start of its workers takes, as far as is known.
  double start_s(std::size_t place) const {
    const JobView& job = view_.jobs[place];
    return std::max(job.start_s, job.starts.starting() ? view_.now_s - job.starts.grown_s() : 0);
  }
  double rate(std::size_t place, std::uint32_t slots) const {
    const Curve& curve = *view_.jobs[place].curve;
    return elastic_ ? curve.best(std::min(slots, curve.cap())) : curve.as_is(slots);
  }
  double left_s(std::size_t place, std::uint32_t slots) const {
    return view_.jobs[place].remaining / rate(place, slots);  // not a number: not known
  }

  // Until when it is to have what it has.
  double settles_s(std::size_t place) const {
    const Starts& starts = view_.jobs[place].starts;
    const double start = start_s(place);
    if (!starts.starting()) return start > 0 ? starts.trains_s() + kTrainsFor * start : 0;
    const double rest_s = std::max(view_.jobs[place].start_s - (view_.now_s - starts.grown_s()), 0.0);
    return view_.now_s + std::max(rest_s + kTrainsFor * start, kLookAgain_s);
  }

  // The slots that it would lose bring about as much as its others: what was measured is no reason to take them.
  bool still_pays(std::size_t place) const {
    const std::uint32_t has = held(place), left = wanted(place);
    const double lost = rate(place, has) - (left > 0 ? rate(place, left) : 0);
    return lost / (has - left) >= kStillPays * rate(place, has) / has;
  }

  // That it goes pays in the sum of completion times.
  bool pays_to_go(std::size_t place) const {
    const bool starting = view_.jobs[place].starts.starting();
    const double invested_s = starting ? view_.now_s - view_.jobs[place].starts.grown_s() : start_s(place);
    for (std::size_t other = 0; other < shares_.size(); ++other) {
      if (held(other) > 0 || wanted(other) == 0) continue;
      if (left_s(place, held(place)) - left_s(other, wanted(other)) > 2 * invested_s) return true;
    }
    return false;
  }

  std::uint32_t floor_of(std::size_t place) const {
    const bool stays = wanted(place) < least(place) && settles_s(place) > view_.now_s && !pays_to_go(place);
    return stays ? std::min(held(place), least(place)) : 0;
  }

  // Whether jobs have to wait for their first slot, as the policy says or because others stay.
  void count_waiting() {
    std::uint32_t needed = 0;
    for (std::size_t place = 0; place < shares_.size(); ++place) {
      if (held(place) > 0) continue;
      waiting_ = waiting_ || wanted(place) == 0;
      needed += least(place);
    }
    waiting_ = waiting_ || needed > free_;
  }

  // The most slots up to `slots` on which workers train long enough after their start.
  std::uint32_t that_pay(std::size_t place, std::uint32_t slots) const {
    const std::uint32_t has = std::max(held(place), held(place) > 0 ? 0 : least(place));
    const double start = start_s(place), remaining = view_.jobs[place].remaining;
    if (!elastic_ || start <= 0 || std::isnan(remaining)) return slots;
    const double meanwhile = held(place) > 0 ? start * rate(place, held(place)) : 0;
    const double least_s = (waiting_ ? kTrainsFor : kTrainsOnIdle) * start;
    while (slots > has && (remaining - meanwhile) / rate(place, slots) < least_s) --slots;
    return slots;
  }

  void begin_newcomers() {
    std::vector<std::size_t> begun;
    for (std::size_t place = 0; place < shares_.size(); ++place) {
      if (held(place) > 0 || wanted(place) == 0) continue;
      blocked_ = least(place) > free_;
      if (blocked_) break;
      give(place, std::min(least(place), std::max(wanted(place), 1U)));
      begun.push_back(place);
    }
    for (const std::size_t place : begun) {
      const std::uint32_t slots = that_pay(place, wanted(place));
      if (slots > shares_[place]) give(place, std::min(slots - shares_[place], free_));
    }
  }

  template <class Choose>
  void restore(Choose choose) {
    for (std::size_t place = 0; place < shares_.size(); ++place) {
      if (shares_[place] >= held(place) || wanted(place) >= held(place) || !choose(place)) continue;
      const std::uint32_t missing = held(place) - shares_[place];
      if (missing <= free_) {
        give(place, missing);
      } else if (elastic_ && shares_[place] + free_ >= least(place)) {
        give(place, free_);
      }
    }
  }

  // When it may grow again after it was undone.
  double grows_s(std::size_t place) const {
    const Starts& starts = view_.jobs[place].starts;
    return starts.undone() < kUndoneOften ? 0 : starts.undone_s() + starts.undone() * start_s(place);
  }

  void grow() {
    for (std::size_t place = 0; place < shares_.size(); ++place) {
      if (held(place) == 0 || wanted(place) <= held(place)) continue;
      if (grows_s(place) > view_.now_s) {
        decision_.again_s = std::min(decision_.again_s, grows_s(place));
        continue;
      }
      const std::uint32_t slots = std::max(that_pay(place, wanted(place)), held(place));
      const std::uint32_t more = slots - shares_[place];
      if (elastic_ || more <= free_) give(place, std::min(more, free_));
    }
  }

  // What the policy has granted to jobs that do not get it.
  void begin_others() {
    std::uint32_t left = 0;
    for (std::size_t place = 0; place < shares_.size(); ++place) left += wanted(place);
    for (const std::uint32_t share : shares_) left -= std::min(left, share);
    left = blocked_ ? 0 : std::min(left, free_);
    for (std::size_t place = 0; place < shares_.size(); ++place) {
      const std::uint32_t slots = least(place);
      if (shares_[place] > 0 || slots > left) continue;
      give(place, slots);
      left -= slots;
    }
  }

  void adopt(std::size_t place) {
    Grant& grant = decision_.grants[place];
    const std::uint32_t share = shares_[place];
    const auto asked = static_cast<std::uint32_t>(grant.slots);
    if (share == asked) return;
    const double until_s = settles_s(place);
    const bool keeps = share > asked && held(place) > 0;
    if (keeps && until_s > view_.now_s) {
      grant = {static_cast<double>(share), Why::kStarted, until_s};
      decision_.again_s = std::min(decision_.again_s, until_s);
    } else if (share == 0) {
      grant = {0, Why::kStarts, 0};
    } else if (share == wanted(place)) {
      grant = {static_cast<double>(share), share < asked ? Why::kLeaves : Why::kFirst, 0};
    } else {
      grant = {static_cast<double>(share), Why::kPays, start_s(place)};
    }
  }

  const View& view_;
  const bool elastic_;
  Decision& decision_;
  std::vector<std::uint32_t> wanted_;  // as the policy says, and spread() after it
  std::vector<std::uint32_t> shares_;
  std::uint32_t free_;
  bool waiting_ = false;
  bool blocked_ = false;  // an earlier job waits for its least, so no later one begins
};

}  // namespace

void Starts::change(double now_s, double before, double after) {
  if (after > before) {
    starting_ += after - before;
    grown_s_ = now_s;
  } else if (starting_ > 0 && after < before) {
    starting_ = std::max(0.0, starting_ - (before - after));
    ++undone_;
    undone_s_ = now_s;
  }
}

void Starts::begin(double now_s) {
  if (starting_ > 0) grown_s_ = now_s;
}

double Starts::train(double now_s) {
  if (starting_ <= 0) return 0;
  starting_ = 0;
  trains_s_ = now_s;
  undone_ = 0;
  return now_s - grown_s_;
}

void hold_starts(const View& view, bool elastic, Decision& decision) {
  Holding(view, elastic, decision).hold();
}

}  // namespace elastictrain::heuristics::sharing
