// AFS-P (NSDI'21): AFS where lengths are not known, as in the authors' simulator. With more slots than jobs everybody
// gets one, then pairs of jobs are compared for every further slot: of an earlier job c and a later one m, m wins if
// the slot adds at least as much to m, relative to m's throughput with it, as to c, relative to c's throughput without
// it; c wins if the opposite holds; otherwise it is a throw, which here stays the same between two jobs of the same
// sizes, so that a decision which is made again does not move slots. With as many jobs as slots or more, jobs keep what
// they hold for a quantum (2 h as published); the others get one slot each, those first that have had the fewest
// quanta, then by their first start and by arrival. The pairs meet in the bracket of AFS-L.
#include <algorithm>

#include "heuristics/sharing/fill.h"
#include "heuristics/sharing/policies.h"
#include "heuristics/sharing/turns.h"

namespace elastictrain::heuristics::sharing {
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
