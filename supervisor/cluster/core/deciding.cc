#include "supervisor/cluster/core/deciding.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>
#include <unordered_set>
#include <utility>

#include "heuristics/sharing/policy.h"
#include "supervisor/cluster/core/state.h"
#include "supervisor/protocol/check.h"

namespace elastictrain::cluster_core {
namespace sharing = heuristics::sharing;
namespace {

using sharing::Why;

std::string fits_text(const Given& given, double number) {
  if (given.policy == "srtf") return "shortest remaining time (" + number_text(number) + " s)";
  if (given.policy == "srsf") return "least remaining service (" + number_text(number) + " slot-seconds)";
  return given.policy == "fifo" ? "first in the queue of those that fit" : "its request fits";
}

std::string fair_text(const Given& given, double number) {
  if (given.policy == "drf") return "dominant shares are equal, its own is " + number_text(100 * number) + " %";
  if (given.policy == "themis") {
    return "finish-time ratios are equal, its own is " + number_text(number) + " of the time on its fair share";
  }
  return "an equal share";
}

std::string gain_text(const Given& given, double number) {
  if (given.policy == "optimus") return "its last slot saves " + number_text(number) + " s";
  if (given.policy == "pollux") return number_text(number) + " times its goodput on its fair share";
  if (given.policy == "afs-l" && number > 0) return number_text(100 * number) + " % of its speed are its last slot's";
  if (given.policy == "worth") return "its last slot counts " + number_text(number) + " in the mean completion time";
  return "its slots gain more than with another job";
}

std::string grant_text(const Given& given, const sharing::Grant& grant) {
  const double for_s = grant.number - given.now_s;
  switch (grant.why) {
    case Why::kWaits:
      return "no slot is free for it now";
    case Why::kFits:
      return fits_text(given, grant.number);
    case Why::kQueue:
      return "queue " + number_text(grant.number + 1) + " of 3: " + number_text(given.used_slot_s) +
             " slot-seconds used";
    case Why::kFair:
      return fair_text(given, grant.number);
    case Why::kGain:
      return gain_text(given, grant.number);
    case Why::kAlone:
      return "all jobs have as many slots as they can use";
    case Why::kTurn:
      return for_s > 0 ? "its turn ends in " + number_text(for_s) + " s" : "nobody waits for its slots";
    case Why::kTried:
    case Why::kKept:
    case Why::kUndone:
      return sharing::name(grant.why);
    case Why::kStarted:
      return "it has just been given its slots, and keeps them for " + number_text(for_s) + " s";
    case Why::kStarts:
      return "its slots are kept by jobs that have just been given them";
    case Why::kLeaves:
      return "its length is not known, and jobs that have had no slot need some";
    case Why::kFirst:
      return "its first slots";
    case Why::kPays:
      return "as many slots as are worth the start of workers (" + number_text(grant.number) + " s)";
    case Why::kSaid:
      return given.said.empty() ? sharing::name(grant.why) : given.said;
  }
  return "";
}

}  // namespace

std::string number_text(double number) {
  char text[32];
  std::snprintf(text, sizeof text, number < 1000 ? "%.3g" : "%.0f", number);
  return text;
}

std::string reason_of(const Given& given, const sharing::Grant& grant) {
  const std::string before = given.policy + ": ";
  if (given.slots > 0) {
    const bool is_bounded = given.slots != static_cast<std::uint32_t>(grant.slots);
    return before + grant_text(given, grant) + (is_bounded ? ", within its sizes and limits" : "");
  }
  if (grant.why == Why::kUndone) return before + grant_text(given, grant) + ", " + looks_text(grant);
  if (grant.why == Why::kStarts) return before + grant_text(given, grant);
  if (grant.why == Why::kSaid && grant.slots < 1) {
    return before + (given.said.empty() ? "it is given no slots" : given.said);
  }
  return before + "no slot is free for it now";
}

// One decision: what the policy is told, what it says, and what becomes of it within everybody's bounds.

namespace sharing = heuristics::sharing;

namespace {

constexpr double kRateOfNobody = 1;        // samples a second, where no job was measured yet
constexpr double kGuessedLength_s = 3600;  // of a job of unknown length, on one worker, where no job has ended yet

double median(std::vector<double> values, double otherwise) {
  if (values.empty()) return otherwise;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string passing_text(std::uint32_t slots, JobId job) {
  return "; " + std::to_string(slots) + (slots == 1 ? " slot for " : " slots for ") + id_text(job);
}

}  // namespace

void decide(ClusterState& state, double now_s) {
  state.decide_s = kNever;
  state.again_s = kNever;
  state.gone_before = std::exchange(state.gone, {});
  state.because = std::exchange(state.trigger, {});
  state.said.clear();
  go_on_deciding(state, now_s);
}

// Slots that nobody can be given now: of runs that are lost or ending, those that are overdue, and of lost hosts.
static void gather_jobs(ClusterState& state, SchedulingRound& round, double now_s) {
  round.usable.resize(state.hosts.size());
  for (std::uint32_t host = 0; host < state.hosts.size(); ++host)
    round.usable[host].assign(state.hosts[host].slots, true);
  for (auto& [id, job] : state.jobs) {
    if (!job.live()) continue;
    account_for(state, job, now_s);
    look_at_losses(state, job, now_s);
    Slots gone = pinned(job) ? state.book.owned(id) : state.book.overdue(id, now_s - state.settings.recall_timeout_s);
    std::erase_if(gone, [&, me = id](auto slot) { return state.book.other_owner(me, slot) != 0; });
    round.block(gone);
    const bool takes_part = job.may_run() && !job.paused && now_s >= job.not_before_s;
    if (takes_part || at_work(state, job)) round.jobs.push_back(&job);
    if (!takes_part && !pinned(job) && !at_work(state, job)) round.idle.push_back(&job);
  }
  block_lost(state, round);
  round.jobs.erase(std::remove_if(round.jobs.begin(), round.jobs.end(), [&](Job* job) { return pinned(*job); }),
                   round.jobs.end());
  std::stable_sort(round.jobs.begin(), round.jobs.end(),
                   [](const Job* a, const Job* b) { return a->spec.priority > b->spec.priority; });
  const std::unordered_set<const Job*> present(round.jobs.begin(), round.jobs.end());
  for (auto& [id, job] : state.jobs) {
    if (!present.contains(&job) || job.seen_priority != job.spec.priority) job.seen_as = 0;
  }
  for (Job* job : round.jobs) {
    if (job->seen_as == 0) job->seen_as = ++state.last_seen_as;
    job->seen_priority = job->spec.priority;
  }
  round.slots = round.count_usable();
  std::vector<double> rates;
  for (const Job* job : round.jobs) {
    for (const auto& [workers, measured] : job->rates) {
      if (workers > 0 && measured.samples_per_s > 0) rates.push_back(measured.samples_per_s / workers);
    }
  }
  round.measured = !rates.empty();
  round.guess = median(std::move(rates), kRateOfNobody);
  std::vector<double> starts_s;
  for (const auto& [id, job] : state.jobs) {
    if (job.measured_start_s > 0) starts_s.push_back(job.measured_start_s);
  }
  round.start_s = median(std::move(starts_s), 0);
  for (Job* job : round.jobs) {
    const std::uint32_t most = most_of(state, *job, round.slots);
    round.curves.push_back(curve_of(*job, most, round.guess));
    if (state.spec->adapts_batch) round.goodput.push_back(goodput_of(*job, most, round.curves.back()));
  }
}

static sharing::JobView view_of(const ClusterState& state, const SchedulingRound& round, std::size_t place) {
  const Job& job = *round.jobs[place];
  sharing::JobView view;
  view.id = job.seen_as;
  view.arrival_s = job.submitted_s;
  view.requested = std::min(job.spec.start, std::max(1U, round.slots));
  view.curve = state.spec->adapts_batch ? &round.goodput[place] : &round.curves[place];
  view.done = static_cast<double>(job.samples);
  view.held = job.share;
  view.running_s = job.running_s;
  view.attained_slot_s = job.slot_s;
  view.first_start_s = job.first_start_s;
  view.least = job.spec.min;
  view.starts = job.starts;
  view.start_s = can_stand(state, job) ? 0 : job.measured_start_s > 0 ? job.measured_start_s : round.start_s;
  const auto said = length_of(state, job);
  // Before any job was measured, it is not known how long a number of samples takes.
  if (said && (round.measured || state.spec->needs_lengths)) {
    view.remaining = std::max(1.0, *said - view.done);
  } else if (state.spec->needs_lengths) {
    const double length =
        state.lengths.empty() ? kGuessedLength_s * round.guess : state.lengths[state.lengths.size() / 2];
    view.remaining = std::max({1.0, length - view.done, view.done / 10});
  }
  if (state.settings.packing) tell_of_packing(state, round, place, view);
  return view;
}

// `slots`: how many there are, and then, how many are left.
static bool ask_for(ClusterState& state, SchedulingRound& round, std::size_t first, std::size_t last,
                    std::uint32_t& slots, double now_s) {
  PolicyQuestion question;
  sharing::View& view = question.view;
  view.now_s = now_s;
  view.slots = slots;
  view.priority = round.jobs[first]->spec.priority;
  for (std::size_t place = first; place < last; ++place) view.jobs.push_back(view_of(state, round, place));
  question.curves.reserve(state.gone_before.size() + (last - first));
  for (const Gone& gone : state.gone_before) {
    if (gone.priority != view.priority) continue;
    question.curves.emplace_back(std::vector<sharing::Curve::Point>{{1, round.guess}});
    view.ended.push_back({gone.seen_as, gone.requested, gone.slot_s, gone.work, &question.curves.back()});
  }
  sharing::Decision decision;
  if (!state.settings.outside) {
    ask_built_in(state, view, decision);
    sharing::hold_starts(view, state.spec->elastic, decision);
  } else if (!ask_outside(state, round, first, question, decision)) {
    return false;
  }
  ET_CHECK(decision.grants.size() == last - first, "a policy decides on every job that it is shown");
  if (decision.again_s > now_s) state.again_s = std::min(state.again_s, decision.again_s);
  std::uint32_t granted = 0;
  for (std::size_t place = first; place < last; ++place) {
    round.grants[place] = decision.grants[place - first];
    ET_CHECK(round.grants[place].slots >= 0, "no job is granted less than nothing");
    const std::uint64_t beside = round.grants[place].beside;
    for (std::size_t host = first; beside != sharing::kNoJob && host < last; ++host) {
      if (round.jobs[host]->seen_as != beside) continue;
      round.host_of[place] = host;
      round.guest_of[host] = place;
    }
    if (!round.is_guest(place)) granted += static_cast<std::uint32_t>(round.grants[place].slots);
  }
  slots -= std::min(slots, granted);
  return true;
}

// Priorities are strict: those of the highest share all slots, the next ones what is left. False: a policy from outside
// has to answer first.
static bool ask_policy(ClusterState& state, SchedulingRound& round, double now_s) {
  round.grants.resize(round.jobs.size());
  round.host_of.assign(round.jobs.size(), SchedulingRound::kNone);
  round.guest_of = round.host_of;
  std::uint32_t left = round.slots;
  for (std::size_t first = 0; first < round.jobs.size() && left > 0;) {
    std::size_t last = first;
    const std::int32_t priority = round.jobs[first]->spec.priority;
    while (last < round.jobs.size() && round.jobs[last]->spec.priority == priority) ++last;
    if (!ask_for(state, round, first, last, left, now_s)) return false;
    first = last;
  }
  return true;
}

static void bound_sizes(ClusterState& state, SchedulingRound& round, double now_s) {
  std::vector<sharing::Bounds> bounds;
  std::vector<sharing::UserLimits> users;
  std::map<std::uint32_t, std::uint32_t> place_of_user;
  for (const Job* job : round.jobs) {
    const auto [found, first] = place_of_user.emplace(job->owner.uid, static_cast<std::uint32_t>(users.size()));
    if (first) users.push_back({job->limits.slots, job->limits.running});
    const bool keeps = at_work(state, *job);
    bounds.push_back({job->spec.min, most_of(state, *job, round.slots), job->share > 0, keeps, found->second});
  }
  meet_deadlines(state, round, bounds, now_s);
  for (const auto& [id, job] : state.jobs) {
    const auto user = place_of_user.find(job.owner.uid);
    if (!job.live() || !pinned(job) || user == place_of_user.end()) continue;
    sharing::UserLimits& limits = users[user->second];
    const auto owned = static_cast<std::uint32_t>(state.book.owned(id).size());
    if (limits.slots != kNoLimit) limits.slots -= std::min(limits.slots, owned);
    if (limits.running != kNoLimit && limits.running > 0) --limits.running;
  }
  round.shares = sharing::whole_shares(round.grants, bounds, std::move(users), round.slots);
  ET_CHECK(round.shares.size() == round.jobs.size(), "every job has a share");
  const auto given = std::accumulate(round.shares.begin(), round.shares.end(), std::uint64_t{0});
  ET_CHECK(given <= round.slots, "no more slots are given than there are");
}

// The only job that gets more slots; nothing: there are several, or none.
static const Job* only_one_that_grows(const SchedulingRound& round) {
  const Job* grows = nullptr;
  for (std::size_t place = 0; place < round.jobs.size(); ++place) {
    if (round.slots_of[place].size() <= round.jobs[place]->share) continue;
    if (grows != nullptr) return nullptr;
    grows = round.jobs[place];
  }
  return grows;
}

// Leases of jobs that are to have none and have no run that could give them back: at once where none was begun, as
// before a restart of the cluster process, and otherwise when the agents of the last one have ended.
static void withdraw_unused(ClusterState& state, double now_s) {
  for (auto& [id, job] : state.jobs) {
    if (job.phase != Phase::kQueued || job.process || job.share > 0 || state.book.owned(id).empty()) continue;
    const bool may_hold = job.resume || !state.book.held(id).empty();
    const double from_s = job.lost_s + state.settings.orphan_grace_s;
    if (may_hold && now_s < from_s) {
      state.again_s = std::min(state.again_s, from_s);
      continue;
    }
    write_record(state, record::Returned{id, state.book.vacate(id)});
    decide_soon(state, now_s, id_text(id) + " has no process any more");
  }
}

// Why a job has the slots that this decision gives it, for people. `grows`: the only one that has more than before.
static std::string why_it_has(const ClusterState& state, const SchedulingRound& round, std::size_t place,
                              const Job* grows, double now_s) {
  const Job& job = *round.jobs[place];
  const auto share = static_cast<std::uint32_t>(round.slots_of[place].size());
  std::string why = job.why;
  const bool by_stand_in = place < round.by_stand_in.size() && round.by_stand_in[place];
  const std::string& said = place < round.reasons.size() ? round.reasons[place] : std::string();
  if (!job.paused) {
    why = reason_of({by_stand_in ? kStandIn : state.settings.policy, said, share, job.slot_s, now_s},
                    round.grants[place]) +
          packing_text(round, place);
    if (share < job.share && grows != nullptr) why += passing_text(job.share - share, grows->id);
  }
  if (place < round.blocked.size() && round.blocked[place]) {
    why = state.settings.policy + (is_away(state, job) ? ": the slots on which it stands still are in use"
                                                       : ": no slot has memory for another job (suspended_per_slot)");
  }
  if (!job.paused) why += deadline_text(state, job, now_s);
  why += move_text(state, job);
  return why;
}

// What everybody is to have once it has been given back.
static void plan_leases(ClusterState& state, SchedulingRound& round) {
  std::vector<std::pair<Holder, Slots>> plan;
  std::vector<Holder> standing;
  std::vector<heuristics::leases::Pair> pairs;
  for (std::size_t place = 0; place < round.jobs.size(); ++place) {
    const Job& job = *round.jobs[place];
    if (is_to_stand(state, job, static_cast<std::uint32_t>(round.slots_of[place].size()))) standing.push_back(job.id);
    plan.emplace_back(job.id, std::move(round.slots_of[place]));
    if (job.beside != 0) pairs.push_back({job.beside, job.id});
  }
  state.book.plan(plan, pairs);
  for (const Holder holder : standing) state.book.park(holder);
  for (const auto& [id, job] : state.jobs) {
    if (job.move) state.book.move(id);
  }
}

static void adopt_decision(ClusterState& state, SchedulingRound& round, double now_s) {
  const bool any_stand_in =
      std::find(round.by_stand_in.begin(), round.by_stand_in.end(), true) != round.by_stand_in.end();
  record::Decided decided{state.because,
                          any_stand_in ? kStandIn : state.settings.policy,
                          round.slots,
                          static_cast<std::uint32_t>(round.jobs.size()),
                          0,
                          {}};
  for (Job* job : round.idle) {
    round.jobs.push_back(job);
    round.shares.push_back(0);
    round.slots_of.emplace_back();
    round.grants.emplace_back();
  }
  const Job* const grows = only_one_that_grows(round);
  for (std::size_t place = 0; place < round.jobs.size(); ++place) {
    Job& job = *round.jobs[place];
    const auto share = static_cast<std::uint32_t>(round.slots_of[place].size());
    if (share == 0) ++decided.waiting;
    job.why = why_it_has(state, round, place, grows, now_s);
    job.to_stand =
        share > 0 && round.grants[place].slots < 1 && job.spec.stands && state.settings.suspended_per_slot > 0;
    job.below_share = place < round.reserved.size() && !round.reserved[place].empty() && share < round.shares[place];
    const JobId beside = share > 0 && round.is_guest(place) ? round.jobs[round.host_of[place]]->id : 0;
    const bool pays = beside != 0 && round.grants[place].why == sharing::Why::kKept;
    if (share == job.share && beside == job.beside && pays == job.pays) continue;
    decided.shares.push_back({job.id, job.share, share, job.why, beside});
    job.starts.change(now_s, job.share, share);
    job.share = share;
    job.beside = beside;
    job.pays = pays;
    job.place_reported = 0;
  }
  state.left_idle = std::find(round.blocked.begin(), round.blocked.end(), true) != round.blocked.end();
  for (std::size_t place = 0; place < round.shares.size(); ++place) {
    state.left_idle = state.left_idle || round.slots_of[place].size() < round.shares[place];
  }
  end_moves(state, round, now_s);
  if (!decided.shares.empty()) write_record(state, std::move(decided));
  plan_leases(state, round);
  withdraw_unused(state, now_s);
  settle_leases(state, now_s);
  send_places(state);
}

// From the beginning, with what a policy from outside has answered so far.
void go_on_deciding(ClusterState& state, double now_s) {
  SchedulingRound round;
  gather_jobs(state, round, now_s);
  if (!ask_policy(state, round, now_s)) return;
  bound_sizes(state, round, now_s);
  exchange_turns(state, round);
  place_jobs(state, round);
  repair_placement(state, round, now_s);
  assign_guests(state, round);
  adopt_decision(state, round, now_s);
  ++state.decisions;
}

std::uint32_t most_of(const ClusterState& state, const Job& job, std::uint32_t slots) {
  std::uint32_t most = std::min({job.spec.max, job.limits.slots, slots});
  if (job.wants) most = std::min(most, *job.wants);
  most = std::min(most, reach_of(state, job.spec));
  if (!state.spec->elastic) most = std::min(most, job.spec.start);
  return std::max({most, job.spec.min, 1U});
}

void ask_built_in(ClusterState& state, const sharing::View& view, sharing::Decision& decision) {
  auto& remembered = state.states[view.priority];
  if (remembered == nullptr) remembered = state.policy->initial_state();
  decision.grants.resize(view.jobs.size());
  state.policy->decide(view, *remembered, state.rng, decision);
}

}  // namespace elastictrain::cluster_core
