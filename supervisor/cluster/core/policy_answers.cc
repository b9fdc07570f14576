// A policy from outside: it is asked, the cluster goes on, and the decision follows when it has answered. What has
// happened meanwhile is decided after that.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "heuristics/sharing/grants.h"
#include "supervisor/cluster/core/deciding.h"
#include "supervisor/cluster/core/state.h"
#include "supervisor/protocol/check.h"

namespace elastictrain::cluster_core {

namespace sharing = heuristics::sharing;

// The question outlives this round, so it takes the curves of its jobs along.
static void ask_program(ClusterState& state, const SchedulingRound& round, std::size_t first, PolicyQuestion question) {
  ET_CHECK(state.asked == nullptr, "a policy from outside is asked one question at a time");
  const auto asked = std::make_shared<PolicyQuestion>(std::move(question));
  for (std::size_t place = 0; place < asked->view.jobs.size(); ++place) {
    asked->curves.push_back(round.curves[first + place]);
    asked->view.jobs[place].curve = &asked->curves.back();
  }
  for (std::uint32_t host = 0; host < state.hosts.size(); ++host) {
    const auto usable = std::count(round.usable[host].begin(), round.usable[host].end(), true);
    if (usable > 0) asked->view.hosts.push_back({state.hosts[host].name, static_cast<std::uint32_t>(usable)});
  }
  state.asked = asked;
  state.actions.emplace_back(AskPolicy{++state.questions, state.asked});
}

// A job that has come since keeps what it has: the next decision, which is due already, is about it, too.
static sharing::Decision answered_for(const Said& said, const SchedulingRound& round, std::size_t first,
                                      const sharing::View& view) {
  std::unordered_map<std::uint64_t, std::size_t> places;
  for (std::size_t place = 0; place < said.asked->view.jobs.size(); ++place) {
    places.emplace(said.asked->view.jobs[place].id, place);
  }
  sharing::Decision decision;
  // It may lie in the past by now.
  decision.again_s = std::max(said.decision.again_s, view.now_s + sharing::kSoonestAgain_s);
  for (std::size_t place = 0; place < view.jobs.size(); ++place) {
    const auto found = places.find(view.jobs[place].id);
    sharing::Grant& grant = decision.grants.emplace_back();
    std::string& reason = decision.reasons.emplace_back();
    grant.why = sharing::Why::kSaid;
    if (found != places.end()) {
      grant = said.decision.grants[found->second];
      reason = said.decision.reasons[found->second];
    } else if (round.jobs[first + place]->beside == 0) {
      grant.slots = view.jobs[place].held;
    }
  }
  return decision;
}

// False: its answer comes later.
bool ask_outside(ClusterState& state, SchedulingRound& round, std::size_t first, PolicyQuestion& question,
                 sharing::Decision& decision) {
  const sharing::View& view = question.view;
  const auto said = state.said.find(view.priority);
  const bool answered = said != state.said.end() && said->second.asked->view.slots == view.slots;
  if (!state.policy_gone && !answered) {
    ask_program(state, round, first, std::move(question));
    return false;
  }
  round.by_stand_in.resize(round.jobs.size());
  round.reasons.resize(round.jobs.size());
  if (!state.policy_gone && said->second.decision.problem.empty()) {
    decision = answered_for(said->second, round, first, view);
    std::move(decision.reasons.begin(), decision.reasons.end(),
              round.reasons.begin() + static_cast<std::ptrdiff_t>(first));
    return true;
  }
  ask_built_in(state, view, decision);
  std::fill_n(round.by_stand_in.begin() + static_cast<std::ptrdiff_t>(first), view.jobs.size(), true);
  return true;
}

void handle(ClusterState& state, const PolicyAnswered& event, double now_s) {
  const std::string& problem = event.decision.problem;
  const bool is_answer = state.asked != nullptr && event.question == state.questions;
  if (!is_answer && !event.is_last) return;
  if (!problem.empty() && problem != state.policy_problem) {
    state.actions.emplace_back(Tell{"the policy " + state.settings.policy + " does not work: " + problem + "; " +
                                        kStandIn + (event.is_last ? " decides from now on" : " decides meanwhile"),
                                    true});
  }
  state.policy_problem = problem;
  state.policy_gone = state.policy_gone || event.is_last;
  const std::int32_t priority = is_answer ? state.asked->view.priority : 0;
  write_record(state, record::PolicyAsked{priority, event.view, event.answer, problem});
  if (!is_answer) return decide_soon(state, now_s, "policy");
  state.said[priority] = {std::exchange(state.asked, nullptr), event.decision};
  go_on_deciding(state, now_s);
}

}  // namespace elastictrain::cluster_core
