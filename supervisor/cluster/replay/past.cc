#include "supervisor/cluster/replay/past.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "supervisor/cluster/core/cluster.h"
#include "supervisor/protocol/display_text.h"

namespace elastictrain::cluster::replay {
namespace {

namespace record = cluster_core::record;

double median(std::vector<double> values, double otherwise) {
  if (values.empty()) return otherwise;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// What is known of a job while its records are read, one after the other.
struct Story {
  std::size_t place = 0;  // in Past::jobs
  double started_s = -1;  // of its process; below 0: it has joined
  bool trains = false;    // since it has been given slots
  std::uint32_t leased = 0;
  double fewer_s = -1;  // since when it has to give back slots; below 0: it has not to
  std::uint32_t fewer_to = 0;
  cluster_core::Job measured;                 // its speeds
  std::map<std::uint32_t, double> at_size_s;  // since when it trains there
  struct Step {
    double at_s;
    std::uint32_t workers;
  };
  std::vector<Step> steps;  // how many workers train from then on
  struct Said {
    double at_s;
    PastJob::Length length;
  };
  std::vector<Said> lengths;
};

class Reader {
 public:
  void read(const Line& line) {
    now_s_ = line.at_s;
    past_.until_s = std::max(past_.until_s, now_s_);
    std::visit([this](const auto& one) { on(one); }, line.record);
  }

  Past finish() {
    for (auto& [id, story] : stories_) job(story).curve = curve_of(story);
    for (auto& [id, story] : stories_) complete(story);
    set_delays();
    for (auto& [id, story] : stories_) find_end_delay(story);
    past_.delays.end_s = median(ends_, past_.delays.end_s);
    return std::move(past_);
  }

  bool began() const { return began_; }
  bool has_rules() const { return has_rules_; }

 private:
  Story* story(cluster_core::JobId id) {
    const auto found = stories_.find(id);
    return found == stories_.end() ? nullptr : &found->second;
  }
  PastJob& job(const Story& story) { return past_.jobs[story.place]; }

  template <class Other>
  void on(const Other&) {}
  void on(const record::Began& one) {
    if (!began_) {
      past_.version = one.version;
      past_.policy = one.policy;
      has_rules_ = one.rules.has_value();
      if (one.rules) past_.rules = *one.rules;
      if (past_.rules.packing) note("packing is not replayed: no two jobs share slots");
    } else if (one.policy != past_.policy) {
      note("the policy became " + one.policy + " later, which is not replayed");
    }
    began_ = true;
  }
  void on(const record::Hosts& one) {
    std::vector<cluster_core::HostLine> hosts;
    for (const auto& host : one.hosts) {
      if (host.slots > 0) hosts.push_back(host);
    }
    past_.hosts.emplace_back(now_s_, std::move(hosts));
  }
  void on(const record::Submitted& one) {
    if (!stories_.try_emplace(one.job).second) return;  // in a damaged journal: an id is never used again
    stories_[one.job].place = past_.jobs.size();
    PastJob& job = past_.jobs.emplace_back();
    job.id = one.job;
    job.owner = one.owner;
    job.name = one.spec.name;
    job.spec = one.spec;
    job.unix_s = one.unix_s;
    job.submitted_s = now_s_;
  }
  void on(const record::Decided& one) {
    for (const auto& share : one.shares) {
      if (share.before != share.after) past_.given.push_back({now_s_, share.job, share.after});
    }
  }
  void on(const record::Started& one) {
    if (Story* const found = story(one.job)) found->started_s = now_s_;
  }
  void on(const record::HasJoined& one) {
    Story* const found = story(one.job);
    if (found == nullptr) return;
    job(*found).spec.suspends = one.suspends;
    if (found->started_s >= 0) joins_.push_back(now_s_ - found->started_s);
    found->started_s = -1;
  }
  void on(const record::Leased& one) {
    Story* const found = story(one.job);
    if (found == nullptr) return;
    const auto slots = static_cast<std::uint32_t>(one.slots.size());
    if (slots < found->leased && found->fewer_s < 0) found->fewer_s = now_s_;
    if (slots < found->leased) found->fewer_to = slots;
    found->leased = slots;
  }
  void on(const record::Returned& one) {
    Story* const found = story(one.job);
    if (found == nullptr) return;
    if (found->fewer_s >= 0) {
      auto& delays = !found->trains ? undos_ : found->fewer_to == 0 ? suspends_ : shrinks_;
      delays.push_back(now_s_ - found->fewer_s);
    }
    found->fewer_s = -1;
    if (found->trains && found->steps.back().workers > found->leased) train(*found, found->leased);
  }
  void on(const record::Left& one) {
    Story* const found = story(one.job);
    if (found == nullptr) return;
    if (one.status == kPreempted) job(*found).leaves_process = true;
    train(*found, 0);
  }
  void on(const record::Ordered& one) {
    past_.orders.push_back({now_s_, one.job, one.order, one.priority});
    Story* const found = story(one.job);
    if (found != nullptr && one.order == cluster_core::Order::kCancel) job(*found).cancelled = true;
  }
  void on(const record::Learned& one) {
    Story* const found = story(one.job);
    if (found == nullptr) return;
    if (one.start_s > 0) {
      auto& starts_s = found->trains ? job(*found).growths_s : job(*found).first_starts_s;
      starts_s.push_back(one.start_s);
      (found->trains ? growths_ : first_starts_).push_back(one.start_s);
      train(*found, one.workers);
    }
    for (const auto& rate : one.rates) take_rate(*found, rate);
    if (one.samples_total || one.expected_samples > 0) {
      found->lengths.push_back({now_s_, {0, one.samples_total, one.expected_samples, one.expected_error}});
    }
  }
  void on(const record::HasEnded& one) {
    Story* const found = story(one.job);
    if (found == nullptr) return;
    PastJob& ended = job(*found);
    ended.ended_s = now_s_;
    ended.status = one.status;
    ended.samples = static_cast<double>(one.samples);
    ended.slot_s = one.slot_s;
    for (const auto& rate : one.rates) found->measured.rates[rate.workers] = {rate.samples_per_s, rate.views};
    if (found->trains) found->steps.push_back({now_s_, 0});
  }
  void on(const record::Helpers&) { note("helper jobs are not replayed: their hosts come and go as they did"); }
  void on(const record::Moving&) { note("moves between hosts may fall elsewhere"); }
  void on(const record::Lost&) { note("supervisors were lost; in the replay none is"); }
  void on(const record::PolicyAsked&) { note("the answers of the policy's program are not replayed"); }

  // Where nothing was measured, what a slot has made in all.
  std::shared_ptr<const heuristics::sharing::Curve> curve_of(const Story& story) {
    const PastJob& one = job(story);
    const double own = one.slot_s > 0 ? one.samples / one.slot_s : 0;
    const std::uint32_t most = std::clamp(one.spec.max, 1U, kMostSlots);
    return std::make_shared<const heuristics::sharing::Curve>(
        cluster_core::curve_of(story.measured, most, own > 0 ? own : 1));
  }

  void note(const std::string& text) {
    if (std::find(past_.notes.begin(), past_.notes.end(), text) == past_.notes.end()) past_.notes.push_back(text);
  }

  void train(Story& story, std::uint32_t workers) {
    story.trains = workers > 0;
    story.at_size_s[workers] = now_s_;
    story.steps.push_back({now_s_, workers});
  }

  void take_rate(const Story& story, const cluster_core::RateSeen& rate) {
    const auto since = story.at_size_s.find(rate.workers);
    const bool there = !story.steps.empty() && story.steps.back().workers == rate.workers;
    if (since == story.at_size_s.end() || !there) return;
    (rate.views >= cluster_core::kFewestViews ? measured_ : first_views_).push_back(now_s_ - since->second);
  }

  // Samples that it had done by then, as its sizes and speeds say.
  double done_by(const Story& story, double at_s) {
    double done = 0;
    for (std::size_t i = 0; i < story.steps.size(); ++i) {
      const double from_s = story.steps[i].at_s;
      const double to_s = i + 1 < story.steps.size() ? story.steps[i + 1].at_s : past_.until_s;
      done += std::max(0.0, std::min(to_s, at_s) - from_s) * rate_of(job(story), story.steps[i].workers);
    }
    return done;
  }

  void complete(Story& story) {
    PastJob& one = job(story);
    std::optional<std::uint64_t> total = one.spec.samples_total;
    for (auto& said : story.lengths) {
      if (said.length.total) total = said.length.total;
      said.length.at_samples = done_by(story, said.at_s);
      one.lengths.push_back(said.length);
    }
    if (!one.ended_s || one.cancelled) {
      if (total) one.work = static_cast<double>(*total);
    } else {
      one.work = one.status == 0 && total ? std::max(one.samples, static_cast<double>(*total)) : one.samples;
    }
  }

  void set_delays() {
    Delays& delays = past_.delays;
    delays.join_s = median(joins_, delays.join_s);
    delays.first_start_s = median(first_starts_, delays.first_start_s);
    delays.growth_s = median(growths_, delays.first_start_s);
    delays.undo_s = median(undos_, delays.undo_s);
    delays.shrink_s = median(shrinks_, delays.shrink_s);
    delays.suspend_s = median(suspends_, delays.shrink_s);
    delays.first_view_s = median(first_views_, delays.first_view_s);
    delays.measured_s = std::max(median(measured_, delays.measured_s), delays.first_view_s);
  }

  // From the moment at which it had done its work, as its sizes and speeds say.
  void find_end_delay(const Story& story) {
    const PastJob& one = job(story);
    if (!one.ended_s || one.status != 0 || !one.work || story.steps.empty()) return;
    double left = *one.work;
    for (std::size_t i = 0; i + 1 < story.steps.size(); ++i) {
      const double rate = rate_of(one, story.steps[i].workers);
      const double length_s = story.steps[i + 1].at_s - story.steps[i].at_s;
      if (rate * length_s >= left && rate > 0) {
        ends_.push_back(*one.ended_s - (story.steps[i].at_s + left / rate));
        return;
      }
      left -= rate * length_s;
    }
    ends_.push_back(0);  // it was a little faster than it was measured
  }

  static constexpr std::uint32_t kMostSlots = 4096;  // that a speed is told for
  static constexpr int kPreempted = 75;              // a run that has left with a checkpoint
  Past past_;
  std::map<cluster_core::JobId, Story> stories_;
  std::vector<double> joins_, first_starts_, growths_, undos_, shrinks_, suspends_, first_views_, measured_, ends_;
  double now_s_ = 0;
  bool began_ = false;
  bool has_rules_ = false;
};

}  // namespace

double rate_of(const PastJob& job, std::uint32_t slots) {
  return slots == 0 ? 0 : job.curve->as_is(slots);
}

std::optional<double> trained_share(const Past& past) {
  double trained = 0, held = 0;
  for (const PastJob& job : past.jobs) {
    if (!job.ended_s || !job.work) continue;
    trained += *job.work / rate_of(job, 1);
    held += job.slot_s;
  }
  if (held <= 0) return std::nullopt;
  return trained / held;
}

Result<Past> past_of(const std::vector<Line>& lines) {
  const auto refused = [](const std::string& why) { return Error{ErrorCode::kInvalid, why}; };
  Reader reader;
  for (const Line& line : lines) reader.read(line);
  if (!reader.began()) {
    return refused("its beginning is missing: the cluster has shortened it, or it is cut");
  }
  const bool has_rules = reader.has_rules();
  Past past = reader.finish();
  if (!has_rules) {
    return refused("version " + past.version + " of elastictrain wrote it, which did not record what a replay needs; " +
                   "name it without --journal to simulate its jobs");
  }
  if (past.jobs.empty()) return refused("no job was submitted to this cluster yet");
  if (past.hosts.empty()) return refused("it names no hosts");
  return past;
}

}  // namespace elastictrain::cluster::replay
