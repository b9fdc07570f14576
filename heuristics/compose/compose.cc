#include "heuristics/compose/compose.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "heuristics/duration_text.h"

namespace elastictrain::heuristics {
namespace {

std::string note(const char* format, double a, double b, double c) {
  char text[160];
  std::snprintf(text, sizeof text, format, a, b, c);
  return text;
}

// Withdraws the change of size. The reason against it precedes the inner policy's reason.
void hold(JobDecision& decision, const char* code, std::string why) {
  decision.workers.reset();
  decision.reason.text = std::move(why) + (decision.reason.text.empty() ? "" : ": ") + decision.reason.text;
  decision.reason.code = code;
}

struct Bounds {
  std::uint32_t min = 1;
  std::uint32_t max = 1;
  std::uint32_t clamp(std::uint32_t workers) const { return std::clamp(workers, min, max); }
};

Bounds bounds_of(const JobView& job) {
  Bounds bounds;
  bounds.min = std::max(job.min_workers, 1U);
  bounds.max = std::min(job.max_workers, max_workers(job.batch));
  if (job.reachable != 0) bounds.max = std::min(bounds.max, job.reachable);
  bounds.max = std::max(bounds.max, bounds.min);
  return bounds;
}

// Why the size is not larger, in words of the configuration.
std::string limit_above(const JobView& job) {
  const std::uint32_t by_batch = max_workers(job.batch);
  if (job.held) return "a user holds this size; `elastictrain resize auto` gives it back to the policy";
  if (by_batch <= job.max_workers && (job.reachable == 0 || by_batch <= job.reachable)) {
    return "batch.max_global = " + std::to_string(job.batch.max_global) + " leaves no samples for more";
  }
  if (job.reachable != 0 && job.reachable < job.max_workers) return "the hosts have no slot for more";
  return "workers.max allows no more";
}

// The state of a wrapper: the inner policy's state, and its own state for each job.
template <typename Own>
struct Wrapped final : PolicyState {
  std::unique_ptr<PolicyState> inner;
  std::map<std::string, Own> jobs;
  std::unique_ptr<PolicyState> clone() const override {
    auto copy = std::make_unique<Wrapped>();
    copy->inner = inner->clone();
    copy->jobs = jobs;
    return copy;
  }
};

template <typename Own>
class Wrapper : public Policy {
 public:
  explicit Wrapper(std::unique_ptr<Policy> inner) : inner_(std::move(inner)) {}

  std::unique_ptr<PolicyState> initial_state() const final {
    auto state = std::make_unique<Wrapped<Own>>();
    state->inner = inner_->initial_state();
    return state;
  }

  Decision decide(const ClusterView& view, PolicyState& state, Rng& rng) const final {
    auto& wrapped = static_cast<Wrapped<Own>&>(state);
    Decision decision = inner_->decide(view, *wrapped.inner, rng);
    std::map<std::string, Own> kept;
    for (std::size_t i = 0; i < decision.jobs.size() && i < view.jobs.size(); ++i) {
      Own& own = kept[view.jobs[i].name] = wrapped.jobs[view.jobs[i].name];
      restrain(view, view.jobs[i], own, decision.jobs[i]);
    }
    wrapped.jobs = std::move(kept);
    return decision;
  }

 protected:
  virtual void restrain(const ClusterView& view, const JobView& job, Own& own, JobDecision& decision) const = 0;

 private:
  std::unique_ptr<Policy> inner_;
};

struct Nothing {};

class Limits final : public Wrapper<Nothing> {
 public:
  using Wrapper::Wrapper;

 private:
  void restrain(const ClusterView&, const JobView& job, Nothing&, JobDecision& decision) const override {
    const Bounds bounds = bounds_of(job);
    if (!decision.workers) {
      const bool rests = decision.reason.code == kSettled && job.workers == job.target;
      const bool binds = job.held || (decision.wants_more && job.workers >= bounds.max);
      if (rests && binds) decision.reason.text += "; " + limit_above(job);
      return;
    }
    const std::uint32_t desired = *decision.workers;
    if (bounds.clamp(desired) == desired) return;
    decision.workers = bounds.clamp(desired);
    const std::string why = desired > bounds.max ? " (" + limit_above(job) + ")" : "";
    decision.reason.text = note("%.0f workers desired, %.0f to %.0f possible", desired, bounds.min, bounds.max) + why +
                           (decision.reason.text.empty() ? "" : ": ") + decision.reason.text;
    if (*decision.workers == job.target) decision.workers.reset();
  }
};

struct LastChange {
  std::optional<double> at_s;
  std::uint32_t to = 0;
};

class CoolDown final : public Wrapper<LastChange> {
 public:
  CoolDown(std::unique_ptr<Policy> inner, double seconds) : Wrapper(std::move(inner)), seconds_(seconds) {}

 private:
  void restrain(const ClusterView& view, const JobView& job, LastChange& last, JobDecision& decision) const override {
    if (!decision.workers || *decision.workers == job.target) return;
    const bool forced = bounds_of(job).clamp(job.workers) != job.workers;
    const bool repeated = last.at_s && last.to == *decision.workers;
    const double since = last.at_s ? view.now_s - *last.at_s : seconds_;
    if (!forced && !repeated && since < seconds_) {
      hold(decision, "cool_down",
           note("%.0f workers desired ", *decision.workers, 0, 0) + duration_text(since) + " after the last change, " +
               duration_text(seconds_) + " must pass");
      return;
    }
    if (!repeated) last = {view.now_s, *decision.workers};
  }

  double seconds_;
};

struct Proposal {
  std::uint32_t workers = 0;
  std::uint32_t views = 0;
};

class Hysteresis final : public Wrapper<Proposal> {
 public:
  Hysteresis(std::unique_ptr<Policy> inner, double share, std::uint32_t views)
      : Wrapper(std::move(inner)), share_(share), views_(views) {}

 private:
  void restrain(const ClusterView&, const JobView& job, Proposal& proposal, JobDecision& decision) const override {
    if (!decision.workers || *decision.workers == job.target) {
      proposal = {};
      return;
    }
    if (proposal.workers != *decision.workers) proposal = {*decision.workers, 0};
    ++proposal.views;
    const bool forced = bounds_of(job).clamp(job.workers) != job.workers;
    const double off = std::abs(static_cast<double>(*decision.workers) - job.target);
    if (forced || off > share_ * job.target || proposal.views >= views_) return;
    hold(decision, "hysteresis",
         note("%.0f workers desired in %.0f consecutive views of %.0f required", *decision.workers, proposal.views,
              views_));
  }

  double share_;
  std::uint32_t views_;
};

}  // namespace

std::unique_ptr<Policy> with_limits(std::unique_ptr<Policy> inner) {
  return std::make_unique<Limits>(std::move(inner));
}

std::unique_ptr<Policy> with_cool_down(std::unique_ptr<Policy> inner, double seconds) {
  return std::make_unique<CoolDown>(std::move(inner), seconds);
}

std::unique_ptr<Policy> with_hysteresis(std::unique_ptr<Policy> inner, double share, std::uint32_t views) {
  return std::make_unique<Hysteresis>(std::move(inner), share, views);
}

namespace {

struct Both final : PolicyState {
  Both(std::unique_ptr<PolicyState> one, std::unique_ptr<PolicyState> other)
      : first(std::move(one)), second(std::move(other)) {}
  std::unique_ptr<PolicyState> clone() const override {
    return std::make_unique<Both>(first->clone(), second->clone());
  }
  std::unique_ptr<PolicyState> first;
  std::unique_ptr<PolicyState> second;
};

template <class T>
void fill(std::optional<T>& own, std::optional<T>& other) {
  if (!own) own = std::move(other);
}

// The second policy found nothing: its reason is omitted.
bool is_quiet(const JobDecision& decision) {
  return !decision.changes() && (decision.reason.code == "none_slow" || decision.reason.code == "off");
}

void add(JobDecision& own, JobDecision& other, Merge of_other) {
  const bool quiet = of_other == Merge::kChanges ? !other.changes() : is_quiet(other);
  if (own.reason.code == "fixed" && !quiet) {
    own.reason = std::move(other.reason);  // a fixed size needs no reason either
  } else if (!quiet) {
    own.reason.code += "+" + other.reason.code;
    own.reason.text += (own.reason.text.empty() ? "" : "; ") + other.reason.text;
    own.reason.numbers.insert(own.reason.numbers.end(), other.reason.numbers.begin(), other.reason.numbers.end());
  }
  own.replacements.insert(own.replacements.end(), other.replacements.begin(), other.replacements.end());
  fill(own.workers, other.workers);
  fill(own.speeds, other.speeds);
  fill(own.per_worker_batch, other.per_worker_batch);
  fill(own.learning_rate_factor, other.learning_rate_factor);
  fill(own.topology, other.topology);
  fill(own.synchronization, other.synchronization);
  if (own.goodput.empty()) own.goodput = std::move(other.goodput);
}

class Beside final : public Policy {
 public:
  Beside(std::unique_ptr<Policy> first, std::unique_ptr<Policy> second, Merge of_second)
      : first_(std::move(first)), second_(std::move(second)), of_second_(of_second) {}
  std::unique_ptr<PolicyState> initial_state() const override {
    return std::make_unique<Both>(first_->initial_state(), second_->initial_state());
  }
  Decision decide(const ClusterView& view, PolicyState& state, Rng& rng) const override {
    auto& both = static_cast<Both&>(state);
    Decision own = first_->decide(view, *both.first, rng);
    Decision other = second_->decide(view, *both.second, rng);
    for (std::size_t i = 0; i < own.jobs.size() && i < other.jobs.size(); ++i) {
      add(own.jobs[i], other.jobs[i], of_second_);
    }
    return own;
  }

 private:
  std::unique_ptr<Policy> first_;
  std::unique_ptr<Policy> second_;
  Merge of_second_;
};

}  // namespace

std::unique_ptr<Policy> beside(std::unique_ptr<Policy> first, std::unique_ptr<Policy> second, Merge of_second) {
  return std::make_unique<Beside>(std::move(first), std::move(second), of_second);
}

}  // namespace elastictrain::heuristics
