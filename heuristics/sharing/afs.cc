#include <algorithm>
#include <cmath>

#include "heuristics/sharing/fair_policies.h"
#include "heuristics/sharing/fill.h"
#include "heuristics/sharing/policy.h"

// AFS-L (NSDI'21): elastic sharing where lengths are known. For every slot, jobs are compared in pairs: of the one that
// would end sooner at its present share (a) and the other (b), b wins if what the slot adds to b, relative to b's
// throughput with it, is more than what it adds to a relative to a's throughput without it. Of two jobs without slots
// the one that is shorter on one slot wins.
//
// The rule is intransitive, so the outcome depends on who is compared with whom: here in a bracket by arrival
// (fill.h), which costs O(log n) a slot, or, as an option, by the authors' scan of all jobs for every slot.
// `one_each_first` is the form of the authors' simulator: every job gets one slot before any gets two, or with more
// jobs than slots the shortest do; and exact ties go to the longer job.

namespace elastictrain::heuristics::sharing {
namespace {

// Gains that differ by less are equal.
constexpr double kEpsilon = 1e-9;

struct Candidate {
  double length_s = 0;  // at the present share; infinite without slots
  double with = 0;      // what a slot adds, relative to the throughput with it
  double without = 0;   // and without it
  double key_s = 0;     // run time on one slot
  double remaining = 0;
  const Curve* curve = nullptr;
  std::uint32_t share = 0;
  std::uint32_t most = 0;
};

void set_share(Candidate& job, std::uint32_t share) {
  job.share = share;
  job.length_s = job.remaining * job.curve->inverse(share);
  job.with = job.curve->gain_with(share);
  job.without = job.curve->gain_without(share);
}

Candidate candidate(const View& view, const JobView& job) {
  Candidate one;
  one.curve = job.curve;
  one.remaining = std::max(job.remaining, 1e-12);
  one.key_s = one.remaining * job.curve->inverse(1);
  one.most = most_slots(view, job);
  set_share(one, 0);
  return one;
}

class AfsL final : public SharingPolicy {
 public:
  explicit AfsL(const AfsOptions& options) : options_(options) {}

  void decide(const View& view, State&, Rng&, Decision& decision) const override {
    if (view.jobs.empty() || grant_all_they_can_use(view, decision)) return;
    std::vector<Candidate> jobs;
    jobs.reserve(view.jobs.size());
    for (const JobView& job : view.jobs) jobs.push_back(candidate(view, job));
    std::uint32_t free = view.slots;
    if (options_.one_each_first) free = give_one_each(jobs, free);
    if (options_.scan) {
      fill_by_scan(jobs, free);
    } else {
      fill_by_bracket(jobs, free);
    }
    for (std::size_t place = 0; place < jobs.size(); ++place) {
      const std::uint32_t share = jobs[place].share;
      decision.grants[place] = {static_cast<double>(share), share > 0 ? Why::kGain : Why::kWaits,
                                share > 0 ? jobs[place].curve->gain_with(share - 1) : 0};
    }
  }

 private:
  static std::uint32_t give_one_each(std::vector<Candidate>& jobs, std::uint32_t free) {
    std::vector<std::uint32_t> order(jobs.size());
    for (std::uint32_t place = 0; place < order.size(); ++place) order[place] = place;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return jobs[a].key_s < jobs[b].key_s; });
    for (std::size_t i = 0; i < order.size() && free > 0; ++i, --free) set_share(jobs[order[i]], 1);
    return free;
  }

  // Whether `b`, the later of the two, wins.
  bool later_wins(const Candidate& a, const Candidate& b) const {
    if (a.length_s == b.length_s && a.share == 0 && b.share == 0) return b.key_s < a.key_s;
    return b.length_s < a.length_s ? !long_wins(b, a) : long_wins(a, b);
  }

  bool long_wins(const Candidate& short_one, const Candidate& long_one) const {
    return options_.one_each_first ? long_one.with >= short_one.without - kEpsilon
                                   : long_one.with > short_one.without + kEpsilon;
  }

  void fill_by_bracket(std::vector<Candidate>& jobs, std::uint32_t free) const {
    const auto better = [&](std::uint32_t a, std::uint32_t b) { return later_wins(jobs[a], jobs[b]) ? b : a; };
    Bracket bracket(static_cast<std::uint32_t>(jobs.size()), better);
    for (std::uint32_t place = 0; place < jobs.size(); ++place) {
      if (jobs[place].share >= jobs[place].most) bracket.take_out(place);
    }
    for (; free > 0 && bracket.first() != kNobody; --free) {
      const std::uint32_t place = bracket.first();
      set_share(jobs[place], jobs[place].share + 1);
      if (jobs[place].share == jobs[place].most) {
        bracket.take_out(place);
      } else {
        bracket.play_again(place);
      }
    }
  }

  void fill_by_scan(std::vector<Candidate>& jobs, std::uint32_t free) const {
    for (; free > 0; --free) {
      std::uint32_t best = kNobody;
      for (std::uint32_t place = 0; place < jobs.size(); ++place) {
        if (jobs[place].share >= jobs[place].most) continue;
        if (best == kNobody || later_wins(jobs[best], jobs[place])) best = place;
      }
      if (best == kNobody) return;
      set_share(jobs[best], jobs[best].share + 1);
    }
  }

  AfsOptions options_;
};

}  // namespace

std::unique_ptr<SharingPolicy> make_afs_l(const AfsOptions& options) {
  return std::make_unique<AfsL>(options);
}

// AFS-P (NSDI'21): AFS where lengths are not known, as in the authors' simulator. With more slots than jobs everybody
// gets one, then pairs of jobs are compared for every further slot: of an earlier job c and a later one m, m wins if
// the slot adds at least as much to m, relative to m's throughput with it, as to c, relative to c's throughput without
// it; c wins if the opposite holds; otherwise it is a throw, which here stays the same between two jobs of the same
// sizes, so that a decision which is made again does not move slots. With as many jobs as slots or more, jobs keep what
// they hold for a quantum (2 h as published); the others get one slot each, those first that have had the fewest
// quanta, then by their first start and by arrival. The pairs meet in the bracket of AFS-L.
namespace {

constexpr double kSameGain = 1e-9;

struct SaltedTurns final : Turns {
  std::uint64_t salt = 0;
  std::unique_ptr<State> clone() const override { return std::make_unique<SaltedTurns>(*this); }
};

// The finalizer of splitmix64.
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

class AfsP final : public SharingPolicy {
 public:
  explicit AfsP(double quantum_s) : quantum_s_(quantum_s) {}
  std::unique_ptr<State> initial_state() const override { return std::make_unique<SaltedTurns>(); }

  void decide(const View& view, State& state, Rng& rng, Decision& decision) const override {
    auto& turns = static_cast<SaltedTurns&>(state);
    if (turns.salt == 0) turns.salt = rng() | 1;
    for (const EndedJob& job : view.ended) turns.of.erase(job.id);
    std::vector<std::uint32_t> shares(view.jobs.size());
    const std::uint32_t free =
        view.jobs.size() < view.slots ? one_each(view, shares) : share_by_turns(view, turns, shares);
    fill(view, turns.salt, shares, free);
    start_turns(view, shares, quantum_s_, turns, decision);
    const Why why = view.jobs.size() > view.slots ? Why::kTurn : Why::kGain;
    for (std::size_t place = 0; place < shares.size(); ++place) {
      decision.grants[place] = {static_cast<double>(shares[place]), shares[place] > 0 ? why : Why::kWaits,
                                turn_end_s(view, turns, place)};
    }
  }

 private:
  static std::uint32_t one_each(const View& view, std::vector<std::uint32_t>& shares) {
    std::fill(shares.begin(), shares.end(), 1);
    return view.slots - static_cast<std::uint32_t>(shares.size());
  }

  static bool later_wins(const View& view, std::uint64_t salt, const std::vector<std::uint32_t>& shares,
                         std::uint32_t c, std::uint32_t m) {
    const Curve& earlier = *view.jobs[c].curve;
    const Curve& later = *view.jobs[m].curve;
    if (later.gain_with(shares[m]) >= earlier.gain_without(shares[c]) - kSameGain) return true;
    if (earlier.gain_with(shares[c]) >= later.gain_without(shares[m]) - kSameGain) return false;
    return (mixed(salt ^ (view.jobs[c].id * 0x9e3779b97f4a7c15ULL) ^
                  mixed(view.jobs[m].id ^ (std::uint64_t{shares[m]} << 40) ^ (std::uint64_t{shares[c]} << 52))) &
            1) != 0;
  }

  static void fill(const View& view, std::uint64_t salt, std::vector<std::uint32_t>& shares, std::uint32_t free) {
    const auto better = [&](std::uint32_t a, std::uint32_t b) { return later_wins(view, salt, shares, a, b) ? b : a; };
    const auto full = [&](std::uint32_t place) {
      return shares[place] == 0 || shares[place] >= most_slots(view, view.jobs[place]);
    };
    if (free == 0) return;
    Bracket bracket(static_cast<std::uint32_t>(shares.size()), better);
    for (std::uint32_t place = 0; place < shares.size(); ++place) {
      if (full(place)) bracket.take_out(place);
    }
    for (; free > 0 && bracket.first() != kNobody; --free) {
      const std::uint32_t place = bracket.first();
      ++shares[place];
      if (full(place)) {
        bracket.take_out(place);
      } else {
        bracket.play_again(place);
      }
    }
  }

  double quantum_s_;
};

}  // namespace

std::unique_ptr<SharingPolicy> make_afs_p(double quantum_s) {
  return std::make_unique<AfsP>(quantum_s);
}

}  // namespace elastictrain::heuristics::sharing
