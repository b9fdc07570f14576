// A deadline is a least share: as many slots as the job needs from now on to end in time, at the speeds that were
// measured. Within a priority those whose deadline is the earliest come first; what a higher priority is given is not
// touched.
#include <algorithm>
#include <map>
#include <string>

#include "supervisor/cluster/core/deciding.h"
#include "supervisor/cluster/core/state.h"

namespace elastictrain::cluster_core {

namespace sharing = heuristics::sharing;

namespace {

constexpr double kMargin = 0.1;  // of the time that is left: for noise, changes and losses

std::string with_slots(std::uint32_t count) {
  return std::to_string(count) + (count == 1 ? " slot" : " slots");
}

}  // namespace

static double deadline_at_s(const Job& job) {
  return job.spec.deadline_s ? job.submitted_s + *job.spec.deadline_s : kNever;
}

static std::optional<std::uint32_t> slots_in_time(const ClusterState& state, const Job& job,
                                                  const sharing::Curve& curve, std::uint32_t most, double now_s) {
  const double left_s = (deadline_at_s(job) - now_s) * (1 - kMargin);
  const auto length = length_of(state, job);
  if (!length || left_s <= 0) return std::nullopt;
  const double rate = (*length - static_cast<double>(job.samples)) / left_s;
  for (std::uint32_t slots = job.spec.min; slots <= most; ++slots) {
    if (curve.as_is(slots) >= rate) return slots;
  }
  return std::nullopt;
}

// Its share was enough when it was decided, and half of the margin is used up since: other work on its hosts, losses.
bool falls_behind(const ClusterState& state, const Job& job, double now_s) {
  const auto length = length_of(state, job);
  if (!length || !job.in_time || job.share < job.slots_in_time || job.rates.empty()) return false;
  const double left_s = (deadline_at_s(job) - now_s) * (1 - kMargin / 2);
  const double left = *length - static_cast<double>(job.samples);
  return left > curve_of(job, most_of(state, job, cluster_slots(state)), 1).as_is(job.share) * left_s;
}

// Of the jobs of one priority, which share `room` slots.
static void meet_deadlines_of(const ClusterState& state, SchedulingRound& round, std::vector<sharing::Bounds>& bounds,
                              std::size_t first, std::size_t last, std::uint32_t room, double now_s) {
  std::vector<std::size_t> order;
  std::map<std::uint32_t, std::uint32_t> room_of_user;
  for (const Job* job : round.jobs) room_of_user[job->owner.uid] = job->limits.slots;
  const auto take = [&](const Job& job, std::uint32_t slots) {
    std::uint32_t& limit = room_of_user[job.owner.uid];
    room -= std::min(room, slots);
    if (limit != kNoLimit) limit -= std::min(limit, slots);
  };
  for (std::size_t place = first; place < round.jobs.size(); ++place) {
    if (bounds[place].keeps) take(*round.jobs[place], bounds[place].least);
    if (place < last && round.jobs[place]->spec.deadline_s) order.push_back(place);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return deadline_at_s(*round.jobs[a]) < deadline_at_s(*round.jobs[b]);
  });
  for (const std::size_t place : order) {
    Job& job = *round.jobs[place];
    const auto slots = slots_in_time(state, job, round.curves[place], bounds[place].most, now_s);
    const std::uint32_t has = bounds[place].keeps ? bounds[place].least : 0;
    job.foreseen = round.measured && length_of(state, job);
    const std::uint32_t most = std::min(room, room_of_user[job.owner.uid]);
    job.in_time = job.foreseen && slots && *slots <= has + std::uint64_t{most};
    job.slots_in_time = job.in_time ? *slots : 0;
    if (!job.in_time) continue;
    take(job, *slots - std::min(*slots, has));
    bounds[place].least = *slots;
    bounds[place].keeps = true;
  }
}

void meet_deadlines(const ClusterState& state, SchedulingRound& round, std::vector<sharing::Bounds>& bounds,
                    double now_s) {
  std::uint32_t left = round.slots;
  for (std::size_t first = 0; first < round.jobs.size();) {
    std::size_t last = first;
    std::uint32_t granted = 0;
    while (last < round.jobs.size() && round.jobs[last]->spec.priority == round.jobs[first]->spec.priority) {
      granted += static_cast<std::uint32_t>(round.grants[last++].slots);
    }
    meet_deadlines_of(state, round, bounds, first, last, left, now_s);
    left -= std::min(left, granted);
    first = last;
  }
}

std::string deadline_text(const ClusterState& state, const Job& job, double now_s) {
  if (!job.spec.deadline_s) return "";
  if (now_s >= deadline_at_s(job)) return "; its deadline is over";
  if (!length_of(state, job)) return "; its deadline does not count: its length is not known";
  if (!job.foreseen) return "; its deadline counts once its speed is known";
  return job.in_time ? "; " + with_slots(job.slots_in_time) + " for its deadline" : "; its deadline cannot be kept";
}

// What is known of a job that has not run: of the last one of its name, else what workers of others do.
static sharing::Curve foreseen_curve(const ClusterState& state, const Job& job, std::uint32_t most, bool& known) {
  double sum = 0;
  std::uint32_t count = 0;
  const Job* before = nullptr;
  for (const auto& [id, other] : state.jobs) {
    if (other.rates.empty()) continue;
    if (other.spec.name == job.spec.name && other.owner.uid == job.owner.uid) before = &other;
    const auto& [workers, measured] = *other.rates.begin();
    sum += measured.samples_per_s / std::max(1U, workers);
    ++count;
  }
  known = count > 0;
  const double guess = count > 0 ? sum / count : 1;
  return curve_of(before != nullptr ? *before : job, most, guess);
}

// What submit says of a new job's deadline.
std::string deadline_answer(const ClusterState& state, const Job& job, double now_s) {
  if (!job.spec.deadline_s) return "";
  if (!length_of(state, job)) {
    return "; its deadline does not count, because its length is not known (policy.samples_total)";
  }
  const std::uint32_t most = most_of(state, job, cluster_slots(state));
  bool known = false;
  const sharing::Curve curve = foreseen_curve(state, job, most, known);
  if (!known) return "; whether its deadline can be kept is known when it has been measured";
  const auto need = slots_in_time(state, job, curve, most, now_s);
  if (!need) {
    return "; its deadline cannot be kept: as far as is known, " + with_slots(most) +
           " (the most that it can have) are too few";
  }
  std::uint32_t promised = 0;
  for (const auto& [id, other] : state.jobs) {
    if (other.live() && other.id != job.id && other.spec.priority >= job.spec.priority) promised += other.slots_in_time;
  }
  if (*need + promised <= cluster_slots(state)) return "; it needs " + with_slots(*need) + " for its deadline";
  return "; its deadline cannot be kept: it needs " + with_slots(*need) + ", and " + std::to_string(promised) + " of " +
         with_slots(cluster_slots(state)) + " are needed for deadlines of other jobs";
}

}  // namespace elastictrain::cluster_core
