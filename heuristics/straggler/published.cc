#include "heuristics/straggler/published.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "heuristics/straggler/detector.h"

namespace elastictrain::heuristics {
namespace {

// The time of one sample, 0 if unknown.
double sample_time(const WorkerView& member) {
  if (member.steps == 0 || member.share == 0 || !(member.compute_s > 0)) return 0;
  return member.compute_s / member.share;
}

std::string line(const char* form, double value, double limit) {
  char text[120];
  std::snprintf(text, sizeof text, form, value, limit);
  return text;
}

// Start of a worker's slowness. Every memory of these detectors has a member `since`.
struct Since {
  bool slow = false;
  double begin_s = 0;
  std::uint64_t steps = 0;
};

template <class Memory>
class Remembering : public Detector {
 public:
  const std::vector<double>& slowdowns() const override { return slowdowns_; }

 protected:
  void begin(const JobView& job) {
    memories_.follow(job.members);
    slowdowns_.assign(job.members.size(), 1.0);
    slow_.clear();
  }
  void judge(const WorkerView& member, Since& since, bool slow, double slowdown, double now_s, std::string because) {
    if (slow && !since.slow) since = {true, now_s, 0};
    since.slow = slow;
    since.steps += member.steps;
    if (slow) {
      slow_.push_back({member.id, member.rank, member.host, slowdown, since.begin_s, since.steps, std::move(because)});
    }
  }

  PerWorker<Memory> memories_;
  std::vector<double> slowdowns_;
  std::vector<SlowWorker> slow_;
};

struct Average {
  double e = 1;
  bool known = false;
  Since since;
};

class Ewma final : public Remembering<Average> {
 public:
  explicit Ewma(const EwmaOptions& options) : options_(options) {}
  std::unique_ptr<Detector> clone() const override { return std::make_unique<Ewma>(*this); }

  std::vector<SlowWorker> observe(const JobView& job, double now_s) override {
    begin(job);
    std::vector<double> rates;
    for (const WorkerView& member : job.members) {
      if (const double time = sample_time(member); time > 0) rates.push_back(1 / time);
    }
    const double median = middle_median(rates);
    for (std::size_t i = 0; i < job.members.size(); ++i) {
      const WorkerView& member = job.members[i];
      Average& average = memories_[i];
      if (const double time = sample_time(member); time > 0) {
        average.e = next_ewma(average.e, 1 / time / median, options_.weight, !average.known);
        average.known = true;
      }
      slowdowns_[i] = 1 / average.e;
      const bool slow = average.known && average.e < options_.limit && !(options_.rank_0_exempt && member.rank == 0);
      judge(member, average.since, slow, slowdowns_[i], now_s,
            slow ? line("average of its relative speed is %.3f < %.3g", average.e, options_.limit) : "");
    }
    return slow_;
  }

 private:
  EwmaOptions options_;
};

struct Scores {
  std::vector<double> times;  // of this window
  double best_median = 0;     // 0: none yet
  double median = 0;          // of the last full window
  double relative = 1;
  double individual = 1;
  Since since;
};

class Nvidia final : public Remembering<Scores> {
 public:
  explicit Nvidia(const ScoreOptions& options) : options_(options) {}
  std::unique_ptr<Detector> clone() const override { return std::make_unique<Nvidia>(*this); }

  std::vector<SlowWorker> observe(const JobView& job, double now_s) override {
    begin(job);
    bool full = true;
    for (std::size_t i = 0; i < job.members.size(); ++i) {
      if (const double time = sample_time(job.members[i]); time > 0) memories_[i].times.push_back(time);
      full = full && memories_[i].times.size() >= options_.window;
    }
    if (full) report();
    for (std::size_t i = 0; i < job.members.size(); ++i) {
      Scores& scores = memories_[i];
      const double min = std::min(scores.relative, scores.individual);
      slowdowns_[i] = 1 / scores.relative;
      judge(job.members[i], scores.since, min < options_.limit, 1 / min, now_s,
            min < options_.limit ? line("score of its compute section is %.3f < %.3g", min, options_.limit) : "");
    }
    return slow_;
  }

 private:
  void report() {
    double best = 0;
    for (Scores& scores : memories_) {
      scores.median = middle_median(scores.times);
      scores.times.clear();
      if (scores.best_median == 0 || scores.median < scores.best_median) scores.best_median = scores.median;
      if (best == 0 || scores.median < best) best = scores.median;
    }
    for (Scores& scores : memories_) {
      scores.relative = section_score({{best, scores.median, scores.median, 1}});
      scores.individual = section_score({{scores.best_median, scores.median, scores.median, 1}});
    }
  }

  ScoreOptions options_;
};

struct Two {
  double last = 0;
  double less = 0;  // of the last two
  Since since;
};

class Dlrover final : public Remembering<Two> {
 public:
  explicit Dlrover(double times_median) : times_median_(times_median) {}
  std::unique_ptr<Detector> clone() const override { return std::make_unique<Dlrover>(*this); }

  std::vector<SlowWorker> observe(const JobView& job, double now_s) override {
    begin(job);
    std::vector<double> all;
    for (std::size_t i = 0; i < job.members.size(); ++i) {
      Two& two = memories_[i];
      if (const double time = sample_time(job.members[i]); time > 0) {
        two.less = two.last > 0 ? std::min(two.last, time) : 0;
        two.last = time;
      }
      if (two.less > 0) all.push_back(two.less);
    }
    const double median = middle_median(all);
    for (std::size_t i = 0; i < job.members.size(); ++i) {
      Two& two = memories_[i];
      if (two.less > 0) slowdowns_[i] = two.less / median;
      const bool slow = slowdowns_[i] > times_median_;
      judge(job.members[i], two.since, slow, slowdowns_[i], now_s,
            slow ? line("its time is %.2f > %.3g times the median", slowdowns_[i], times_median_) : "");
    }
    return slow_;
  }

 private:
  double times_median_;
};

}  // namespace

double next_ewma(double average, double value, double weight, bool first) {
  return first ? value : weight * value + (1 - weight) * average;
}

double section_score(const std::vector<SectionTime>& sections) {
  double sum = 0;
  double weights = 0;
  for (const SectionTime& section : sections) {
    const double weight = section.count * section.average;
    if (section.median > 0) sum += weight * section.reference / section.median;
    weights += weight;
  }
  return weights > 0 ? sum / weights : 1;
}

std::unique_ptr<Detector> make_ewma_detector(const EwmaOptions& options) {
  return std::make_unique<Ewma>(options);
}

std::unique_ptr<Detector> make_nvidia_detector(const ScoreOptions& options) {
  return std::make_unique<Nvidia>(options);
}

std::unique_ptr<Detector> make_dlrover_detector(double times_median) {
  return std::make_unique<Dlrover>(times_median);
}

}  // namespace elastictrain::heuristics
