#include "heuristics/compose/beside.h"

#include <utility>

namespace elastictrain::heuristics {
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
