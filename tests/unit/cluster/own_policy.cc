#include "own_policy.h"

#include "heuristics/sharing/grants.h"
#include "heuristics/sharing/policy.h"

namespace elastictrain::cluster_core::test {

namespace sharing = heuristics::sharing;

sharing::Decision OwnPolicy::at_random(const sharing::View& view) {
  sharing::Answer answer;
  for (const sharing::JobView& job : view.jobs) {
    if (chance(0.2)) continue;
    sharing::Answer::Job one{job.id, static_cast<std::uint32_t>(uniform(0, view.slots + 1)), {}, "at random"};
    for (const sharing::JobView& other : view.jobs) {
      if (!job.packs || !other.packs || other.held == 0 || job.id == other.id || !chance(0.3)) continue;
      one.beside = other.id;
      one.slots = static_cast<std::uint32_t>(other.held);
    }
    answer.jobs.push_back(std::move(one));
  }
  answer.again_s = view.now_s + uniform(0.5, 5);
  return sharing::decision_of(answer, view);
}

PolicyAnswered OwnPolicy::answer(const AskPolicy& ask, bool is_well) {
  const sharing::View& view = ask.asked->view;
  PolicyAnswered answered;
  answered.question = ask.question;
  ++answers;
  if (!is_well) {
    answered.decision = at_random(view);
    answered.is_last = chance(0.02);
    if (answered.is_last) answered.decision.problem = "it has ended";
    return answered;
  }
  const auto policy = sharing::make_max_min(0);
  answered.decision.grants.resize(view.jobs.size());
  answered.decision.reasons.resize(view.jobs.size());
  sharing::Rng rng(1);
  policy->decide(view, *policy->initial_state(), rng, answered.decision);
  return answered;
}

}  // namespace elastictrain::cluster_core::test
