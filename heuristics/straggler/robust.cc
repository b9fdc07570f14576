#include "heuristics/straggler/robust.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

#include "heuristics/straggler/detector.h"

namespace elastictrain::heuristics {
namespace {

constexpr std::uint32_t kRing = 15;         // recent views whose median counts
constexpr std::uint32_t kBlock = 16;        // views per block, for noise and own past
constexpr std::uint32_t kMinBlocks = 4;     // before own noise and own past are trusted
constexpr std::uint32_t kMinViews = 4;      // of a slowness
constexpr std::uint32_t kNewest = 5;        // whose median a slowness is now
constexpr double kMaxOfAView = 0.3;         // the maximum logarithm that one view adds: a third more time
constexpr double kFalseAlarmExponent = 20;  // one false alarm in e^20 views of normal noise
// Evidence in multiples of the logarithm of `min_slowdown`, where noise asks for less: to name a worker, more than one
// view can add; to remember a slowness that passes by itself, twice as much.
constexpr double kToName = 3.25;
constexpr double kToRemember = 6;
constexpr double kTimesPassed = 1.5;    // a lasting slowness must be longer than those that passed by this factor
constexpr double kWhileChanging = 2;    // starting workers disturb the others on their host for a while
constexpr double kShareOfRecent = 0.6;  // of the recent slowness that the newest view has, if it lasts
constexpr double kLongestPassed_s = 60;
constexpr double kLongestPassedSteps = 100;
constexpr double kForgetPassed_s = 3600;  // half-life
constexpr double kToDeviation = 1.4826;   // from median absolute deviation to standard deviation

double limited(double value) {
  return std::clamp(value, -kMaxOfAView, kMaxOfAView);
}

bool has_news(const WorkerView& member) {
  return member.steps > 0 && member.share > 0 && member.compute_s > 0;
}

// One view of one worker. All values are logarithms.
struct Seen {
  double ratio = 0;  // of the time for a sample
  double min = 0;    // the smaller of `ratio` and the ratio of whole times
  double own = 0;    // logarithm of the time for a sample
};

enum class Median : std::uint8_t { kLower, kUpper };  // of an even number of values

// A view in which a worker was slow for all or a part of the time.
struct SlowView {
  double end_s = 0;
  double length_s = 0;
  double ratio = 0;
};

struct Track {
  double compute_s = 0;  // of the newest view with steps; 0: none yet
  double sample_s = 0;
  std::uint32_t views = 0;

  std::array<float, kRing> ring{};
  std::uint32_t in_ring = 0;
  double level = 0;  // running mean

  double evidence = 0;
  SlowView first_slow;
  SlowView last_slow;
  double steps_until_last_slow = 0;
  std::uint32_t views_since = 0;
  std::uint64_t steps_since = 0;
  bool verified = false;  // enough evidence to be reported, except for its duration
  bool named = false;

  std::uint32_t in_block = 0;
  std::uint32_t blocks = 0;
  double block_ratio = 0;  // sums
  double block_own = 0;
  double last_block_ratio = 0;
  double block_difference = 0;  // running mean of absolute differences
  double usual_ratio = 0;       // own past, for two workers
  double usual_own = 0;

  bool has_past() const { return blocks > kMinBlocks; }
  void forget_past() {
    in_block = blocks = 0;
    block_ratio = block_own = 0;
  }
  void forget_evidence() {
    evidence = 0;
    views_since = 0;
    steps_since = 0;
    verified = false;
  }
  void add_to_block(const Seen& seen);
  double recent(std::uint32_t max_views, Median median = Median::kLower) const;
};

// The median of the last views: since the slowness began, or of all if there is none.
double Track::recent(std::uint32_t max_views, Median median) const {
  const std::uint32_t seen = std::min(in_ring, max_views);
  const std::uint32_t count = views_since == 0 ? seen : std::min(seen, views_since);
  if (count == 0) return 0;
  std::array<float, kRing> values{};
  for (std::uint32_t i = 0; i < count; ++i) values[i] = ring[(views - 1 - i) % kRing];
  const auto middle = values.begin() + (median == Median::kLower ? count - 1 : count) / 2;
  std::nth_element(values.begin(), middle, values.begin() + count);
  return *middle;
}

// The own past follows a decrease quickly and an increase slowly, so that a drift over an hour is detected.
void follow(double& usual, double block_mean) {
  const double difference = block_mean - usual;
  usual += difference * (difference > 0 ? 1.0 / 512 : 1.0 / 16);
}

void Track::add_to_block(const Seen& seen) {
  if (blocks == 0) {  // the first block only determines the usual values
    usual_own = in_block == 0 ? seen.own : std::min(usual_own, seen.own);
    if (++in_block < kBlock) return;
    usual_ratio = last_block_ratio = level;
  } else {
    // Limited relative to the usual value: a spike must not change the past.
    block_ratio += usual_ratio + limited(seen.ratio - usual_ratio);
    block_own += usual_own + limited(seen.own - usual_own);
    if (++in_block < kBlock) return;
    const double ratio = block_ratio / kBlock;
    // Limited once there is a past: the jump of a worker that becomes slow must not count as noise.
    const double max = has_past() ? std::max(4 * block_difference, 0.01) : kMaxOfAView;
    const double difference = std::min(std::abs(ratio - last_block_ratio), max);
    block_difference += (difference - block_difference) / std::min(blocks, 16U);
    follow(usual_ratio, ratio);
    follow(usual_own, block_own / kBlock);
    last_block_ratio = ratio;
  }
  ++blocks;
  in_block = 0;
  block_ratio = block_own = 0;
}

class Robust final : public Detector {
 public:
  explicit Robust(const RobustOptions& options)
      : options_(options), min_(std::log1p(std::max(options.min_slowdown, 0.001))) {}
  std::unique_ptr<Detector> clone() const override { return std::make_unique<Robust>(*this); }
  const std::vector<double>& slowdowns() const override { return slowdowns_; }
  std::vector<SlowWorker> observe(const JobView& job, double now_s) override;

 private:
  void take_in(const std::vector<WorkerView>& members);
  void find_references(const std::vector<WorkerView>& members);
  Seen seen(std::size_t place, const WorkerView& member) const;
  void add(Track& track, const WorkerView& member, const Seen& seen);
  void collect_evidence(Track& track, const WorkerView& member, double min);
  double noise_evidence(const Track& track) const;
  // The ratio that is usual for this worker. A worker that used to be faster is still compared with the others.
  double usual(const Track& track) const { return pair_ ? std::max(track.usual_ratio, 0.0) : 0; }
  double slow_part_s(const Track& track, const SlowView& view) const;
  double slow_since(const Track& track) const { return track.first_slow.end_s - slow_part_s(track, track.first_slow); }
  double slow_until(const Track& track) const {
    return track.last_slow.end_s - track.last_slow.length_s + slow_part_s(track, track.last_slow);
  }
  bool is_slow_now(const Track& track);
  void end_slowness(Track& track);
  std::vector<SlowWorker> named(const std::vector<WorkerView>& members);

  RobustOptions options_;
  double min_;  // logarithm
  PerWorker<Track> tracks_;
  std::vector<double> slowdowns_;
  std::size_t known_ = 0;  // workers that have computed so far
  bool even_ = true;       // all shares are equal
  bool pair_ = false;      // there are two workers; their places:
  std::pair<std::size_t, std::size_t> two_;
  double sample_ref_ = 0;  // logarithms, of the lower median worker
  double compute_ref_ = 0;
  double spread_ = 0;    // standard deviation of this view's ratios over the workers
  double passed_s_ = 0;  // the longest slowness that passed by itself
  double passed_steps_ = 0;
  double patience_ = 1;  // factor of the time that a slowness must last
  double now_s_ = 0;     // of this view; the next member is that of the view before
  double previous_s_ = 0;
  std::optional<double> field_;  // deviation of the workers' levels, if this view needed it
  std::vector<double> scratch_;
};

std::vector<SlowWorker> Robust::observe(const JobView& job, double now_s) {
  tracks_.follow(job.members);
  const double kept = std::exp2(-std::max(now_s - now_s_, 0.0) / kForgetPassed_s);
  passed_s_ *= kept;
  passed_steps_ *= kept;
  previous_s_ = std::exchange(now_s_, now_s);
  patience_ = job.changing ? kWhileChanging : 1;
  take_in(job.members);
  if (known_ < 2) return named(job.members);
  find_references(job.members);
  field_.reset();
  for (std::size_t i = 0; i < job.members.size(); ++i) {
    const WorkerView& member = job.members[i];
    if (has_news(member)) add(tracks_[i], member, seen(i, member));
  }
  return named(job.members);
}

void Robust::take_in(const std::vector<WorkerView>& members) {
  known_ = 0;
  even_ = true;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const WorkerView& member = members[i];
    Track& track = tracks_[i];
    if (has_news(member)) {
      track.compute_s = member.compute_s;
      track.sample_s = member.compute_s / member.share;
    }
    if (track.compute_s > 0) {
      (known_ == 0 ? two_.first : two_.second) = i;
      ++known_;
    }
    even_ = even_ && member.share == members[0].share;
  }
  if (pair_ == (known_ == 2)) return;
  pair_ = known_ == 2;
  for (Track& track : tracks_) track.forget_past();  // its ratios were relative to another worker
}

// Workers without news count with their last values: all do the same steps, so these are hardly older.
void Robust::find_references(const std::vector<WorkerView>& members) {
  scratch_.clear();
  for (const Track& track : tracks_) {
    if (track.compute_s > 0) scratch_.push_back(track.sample_s);
  }
  const double sample_s = lower_median(scratch_);
  sample_ref_ = std::log(sample_s);
  for (double& value : scratch_) value = std::abs(value / sample_s - 1);
  spread_ = kToDeviation * lower_median(scratch_);
  compute_ref_ = sample_ref_ + std::log(std::max(members[0].share, 1U));
  if (even_) return;
  scratch_.clear();
  for (const Track& track : tracks_) {
    if (track.compute_s > 0) scratch_.push_back(track.compute_s);
  }
  compute_ref_ = std::log(lower_median(scratch_));
}

Seen Robust::seen(std::size_t place, const WorkerView& member) const {
  double sample_ref = sample_ref_;
  double compute_ref = compute_ref_;
  if (pair_) {
    const Track& other = tracks_[place == two_.first ? two_.second : two_.first];
    sample_ref = std::log(other.sample_s);
    compute_ref = std::log(other.compute_s);
  }
  Seen seen;
  seen.own = std::log(tracks_[place].sample_s);
  seen.ratio = seen.own - sample_ref;
  seen.min = even_ ? seen.ratio : std::min(seen.ratio, seen.own + std::log(member.share) - compute_ref);
  return seen;
}

void Robust::add(Track& track, const WorkerView& member, const Seen& seen) {
  track.ring[track.views++ % kRing] = static_cast<float>(seen.ratio);
  track.in_ring = std::min(track.in_ring + 1, kRing);
  track.level += limited(seen.ratio - track.level) / std::min(track.views, 16U);
  if (!pair_) {
    collect_evidence(track, member, seen.min);
  } else if (track.has_past()) {
    collect_evidence(track, member, std::min(seen.min - usual(track), seen.own - track.usual_own));
  }
  track.add_to_block(seen);
}

void Robust::collect_evidence(Track& track, const WorkerView& member, double min) {
  const double of_noise = noise_evidence(track);
  const double to_name = std::max(kToName * min_, of_noise), to_remember = std::max(kToRemember * min_, of_noise);
  track.evidence = std::min(track.evidence + limited(min) - min_, 2 * to_remember);
  if (track.evidence <= 0 && !track.named) {
    end_slowness(track);
    return;
  }
  const bool begins = track.views_since == 0;
  const SlowView view{now_s_, now_s_ - previous_s_, min};
  if (begins) track.first_slow = track.last_slow = view;
  ++track.views_since;
  track.steps_since += begins ? (member.steps + 1) / 2 : member.steps;
  if (min > min_) {
    track.last_slow = view;
    track.steps_until_last_slow = static_cast<double>(track.steps_since);
  }
  if (track.named) {
    if (track.recent(kRing) - usual(track) < min_ / 2) end_slowness(track);
    return;
  }
  if (track.evidence <= to_name || track.views_since < kMinViews || !is_slow_now(track)) return;
  track.verified = track.verified || track.evidence > to_remember;
  // Counted up to the last slow view: evidence lasts longer than the slowness by some views.
  // What is over by now is not named.
  const double within = track.recent(kNewest, Median::kUpper) - usual(track);
  const bool lasts = min >= std::max(min_, kShareOfRecent * within);
  const double min_steps = std::max(1.0 * options_.min_steps, kTimesPassed * passed_steps_);
  const double min_s = std::max(options_.min_s, kTimesPassed * passed_s_);
  track.named = lasts && track.steps_until_last_slow >= patience_ * min_steps &&
                slow_until(track) - slow_since(track) >= patience_ * min_s;
  track.verified = track.verified || track.named;
}

// The time for which the worker was slow in that view, if it was as slow then as in the views within the slowness. Of a
// view of length T with steps that take x times as long for a time of q T, the mean step takes r = 1 / (1 - q (x - 1) /
// x) times as long.
double Robust::slow_part_s(const Track& track, const SlowView& view) const {
  const double slow = std::exp(track.recent(kNewest, Median::kUpper) - usual(track));
  if (slow <= 1) return view.length_s;
  return view.length_s * std::clamp((1 - std::exp(-view.ratio)) * slow / (slow - 1), 0.0, 1.0);
}

double Robust::noise_evidence(const Track& track) const {
  // Successive block means of independent noise differ by 2/√π of their deviation on average, and a block mean deviates
  // by that of one view over √kBlock. For correlated noise, this is the deviation that matters in the long run.
  constexpr double kHalfRootPi = 0.8862;
  const double deviation = track.has_past() ? kHalfRootPi * track.block_difference * std::sqrt(1.0 * kBlock) : spread_;
  return kFalseAlarmExponent / 2 * deviation * deviation / min_;
}

bool Robust::is_slow_now(const Track& track) {
  const double recent = std::min(track.recent(kRing), track.recent(kNewest)) - usual(track);
  if (recent <= min_) return false;
  if (known_ < 4) return true;
  if (!field_) {
    scratch_.clear();
    for (const Track& other : tracks_) {
      if (other.compute_s > 0) scratch_.push_back(std::abs(other.level));
    }
    field_ = kToDeviation * lower_median(scratch_);
  }
  return recent > min_ + 3 * *field_;
}

void Robust::end_slowness(Track& track) {
  if (track.verified) {
    passed_s_ = std::max(passed_s_, std::min(slow_until(track) - slow_since(track), kLongestPassed_s));
    passed_steps_ = std::max(passed_steps_, std::min(track.steps_until_last_slow, kLongestPassedSteps));
  }
  track.named = false;
  track.forget_evidence();
}

std::vector<SlowWorker> Robust::named(const std::vector<WorkerView>& members) {
  std::vector<SlowWorker> slow;
  slowdowns_.resize(members.size());
  for (std::size_t i = 0; i < members.size(); ++i) {
    const Track& track = tracks_[i];
    slowdowns_[i] = std::exp(track.named ? track.recent(kRing) : track.level);
    if (!track.named) continue;
    const double since_s = slow_since(track);
    char text[160];
    std::snprintf(text, sizeof text, "%.2f times the others' time for a sample over %llu steps, %.0f s", slowdowns_[i],
                  static_cast<unsigned long long>(track.steps_since), now_s_ - since_s);
    slow.push_back({members[i].id, members[i].rank, members[i].host, slowdowns_[i], since_s, track.steps_since, text});
  }
  std::sort(slow.begin(), slow.end(), [](const SlowWorker& a, const SlowWorker& b) { return a.rank < b.rank; });
  return slow;
}

}  // namespace

std::unique_ptr<Detector> make_robust_detector(const RobustOptions& options) {
  return std::make_unique<Robust>(options);
}

}  // namespace elastictrain::heuristics
