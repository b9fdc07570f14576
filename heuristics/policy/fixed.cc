#include "heuristics/policy/fixed.h"

#include "heuristics/policy/settings_table.h"

namespace elastictrain::heuristics {
namespace {

struct Nothing final : PolicyState {
  std::unique_ptr<PolicyState> clone() const override { return std::make_unique<Nothing>(); }
};

struct NoSettings {};

class Fixed final : public Policy {
 public:
  explicit Fixed(const NoSettings&) {}
  std::unique_ptr<PolicyState> initial_state() const override { return std::make_unique<Nothing>(); }
  Decision decide(const ClusterView& view, PolicyState&, Rng&) const override {
    JobDecision keep;
    keep.reason = {"fixed", "the size is fixed", {}};
    return {std::vector<JobDecision>(view.jobs.size(), keep)};
  }
};

}  // namespace

PolicySpec fixed_policy() {
  return policy_spec<Fixed>("fixed", "keeps the size; only resize and failures change it", SettingsTable<NoSettings>());
}

}  // namespace elastictrain::heuristics
