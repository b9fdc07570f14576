// Jobs that stand still in memory while others use their slots. They go on where they are, so these slots are kept for
// them before any other job is placed; a job whose turn has come and whose slots are in use lets another one go first.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "supervisor/cluster/core/deciding.h"
#include "supervisor/cluster/core/state.h"
#include "supervisor/protocol/check.h"

namespace elastictrain::cluster_core {

// Its processes are on slots that others may use.
bool is_away(const ClusterState& state, const Job& job) {
  return state.book.in_use(job.id) == 0 && !state.book.parked(job.id).empty();
}

// All its slots can pass on while its processes stay.
bool can_stand(const ClusterState& state, const Job& job) {
  if (state.settings.suspended_per_slot == 0 || !job.spec.stands || job.phase != Phase::kJoined) return false;
  if (is_away(state, job)) return true;
  const Slots owned = state.book.owned(job.id);
  return !owned.empty() && !state.book.held(job.id).empty() && owned.size() == state.book.in_use(job.id);
}

// Its slots are taken from it, and it may leave with a checkpoint for long.
bool is_to_stand(const ClusterState& state, const Job& job, std::uint32_t share) {
  return share == 0 && can_stand(state, job) && (is_away(state, job) || !(job.paused && job.spec.suspends));
}

// Where one more job would be one too many in memory, if it is none of those that stand still there.
static void find_full(const ClusterState& state, SchedulingRound& round) {
  round.full = round.usable;
  for (std::uint32_t host = 0; host < round.full.size(); ++host) {
    for (std::uint32_t number = 0; number < round.full[host].size(); ++number) {
      const std::uint32_t parked = state.book.parked_on({host, number});
      round.full[host][number] = parked > 0 && parked >= state.settings.suspended_per_slot + 1;
    }
  }
  std::map<heuristics::leases::Slot, std::uint32_t> more;  // two that share a slot may both be about to stand there
  const auto stands = [&](const Job& job) {
    for (const auto slot : state.book.lease(job.id).slots) {
      const std::uint32_t there = state.book.parked_on(slot) + more[slot]++;
      if (round.is_usable(slot) && there >= state.settings.suspended_per_slot)
        round.full[slot.host][slot.number] = true;
    }
  };
  for (std::size_t place = 0; place < round.shares.size(); ++place) {
    const Job& job = *round.jobs[place];
    if (state.book.in_use(job.id) > 0 && is_to_stand(state, job, round.works(place) ? 1 : 0)) stands(job);
  }
  for (const Job* job : round.idle) {
    if (state.book.in_use(job->id) > 0 && is_to_stand(state, *job, 0)) stands(*job);
  }
  const bool works = std::any_of(state.jobs.begin(), state.jobs.end(),
                                 [&](const auto& entry) { return !state.book.owned(entry.first).empty(); });
  if (works) return;
  // Rather one job too many in memory than none at work.
  for (auto& host : round.full) host.assign(host.size(), false);
}

// Of the slots on which it stands still, those that it can have.
Slots own_place(const ClusterState& state, const SchedulingRound& round, const Job& job) {
  Slots slots = state.book.parked(job.id);
  std::erase_if(slots, [&](auto slot) {
    const bool lost = job.has_lost(slot.host);
    return lost || !round.is_usable(slot);
  });
  return slots;
}

void reserve_slots(const ClusterState& state, SchedulingRound& round) {
  round.reserved.assign(round.jobs.size(), {});
  find_full(state, round);
  std::vector<std::vector<bool>> left = round.usable;
  for (std::size_t place = 0; place < round.jobs.size(); ++place) {
    const Job& job = *round.jobs[place];
    if (round.shares[place] == 0 || !is_away(state, job)) continue;
    Slots slots = own_place(state, round, job);
    std::erase_if(slots, [&](auto slot) { return !left[slot.host][slot.number]; });
    if (slots.size() < job.spec.min) continue;  // the others of its workers are lost
    slots.resize(std::min<std::size_t>(slots.size(), round.shares[place]));
    for (const auto slot : slots) left[slot.host][slot.number] = false;
    round.reserved[place] = std::move(slots);
  }
  for (std::uint32_t host = 0; host < left.size(); ++host) {
    for (std::uint32_t number = 0; number < left[host].size(); ++number) {
      if (round.full[host][number]) left[host][number] = false;
    }
  }
  round.open = std::move(left);
  keep_moves(state, round);
}

// What one job after the other would use.
struct Claimed {
  std::set<heuristics::leases::Slot> slots;

  Slots left_of(Slots wanted) const {
    std::erase_if(wanted, [&](auto slot) { return slots.contains(slot); });
    return wanted;
  }
  void add(const Slots& more, std::size_t count) {
    slots.insert(more.begin(), more.begin() + static_cast<std::ptrdiff_t>(std::min(more.size(), count)));
  }
};

// Slots for a job that has no process yet: those with the fewest jobs in memory first.
static Slots room_for_new(const ClusterState& state, const SchedulingRound& round, const Claimed& claimed) {
  Slots slots;
  for (std::uint32_t host = 0; host < round.usable.size(); ++host) {
    for (std::uint32_t number = 0; number < round.usable[host].size(); ++number) {
      if (round.usable[host][number] && !round.full[host][number]) slots.push_back({host, number});
    }
  }
  slots = claimed.left_of(std::move(slots));
  std::stable_sort(slots.begin(), slots.end(),
                   [&](auto a, auto b) { return state.book.parked_on(a) < state.book.parked_on(b); });
  return slots;
}

// The slots that it can have now, without moving anybody.
static Slots within_reach(const ClusterState& state, const SchedulingRound& round, const Job& job,
                          const Claimed& claimed) {
  if (state.book.in_use(job.id) > 0) return claimed.left_of(state.book.lease(job.id).slots);
  return is_away(state, job) ? claimed.left_of(own_place(state, round, job)) : room_for_new(state, round, claimed);
}

// Shares of jobs that cannot use them now, by priority. A user with limits takes only what was that user's own.
struct Freed {
  std::map<std::int32_t, std::uint32_t> all;
  std::map<std::pair<std::int32_t, std::uint32_t>, std::uint32_t> of_user;

  static bool is_limited(const Job& job) { return job.limits.slots != kNoLimit || job.limits.running != kNoLimit; }
  void add(const Job& job, std::uint32_t slots) {
    all[job.spec.priority] += slots;
    of_user[{job.spec.priority, job.owner.uid}] += slots;
  }
  std::uint32_t left(const Job& job) {
    const std::uint32_t own = of_user[{job.spec.priority, job.owner.uid}];
    return is_limited(job) ? std::min(own, all[job.spec.priority]) : all[job.spec.priority];
  }
  void take(const Job& job, std::uint32_t slots) {
    std::uint32_t& own = of_user[{job.spec.priority, job.owner.uid}];
    std::uint32_t& freed = all[job.spec.priority];
    ET_CHECK(freed >= slots, "no more is passed on than was freed");
    freed -= slots;
    own -= std::min(own, slots);
  }
};

// To jobs that wait and could use what others cannot.
static void give_turns(const ClusterState& state, SchedulingRound& round, bool working, Claimed& claimed,
                       Freed& freed) {
  for (std::size_t place = 0; place < round.jobs.size(); ++place) {
    const Job& job = *round.jobs[place];
    const bool waits = round.shares[place] == 0 && !round.blocked[place] && !round.is_guest(place) &&
                       working == (state.book.in_use(job.id) > 0);
    if (!waits || freed.left(job) < job.spec.min) continue;
    const Slots slots = within_reach(state, round, job, claimed);
    if (slots.size() < job.spec.min) continue;
    round.shares[place] =
        std::min({freed.left(job), most_of(state, job, round.slots), static_cast<std::uint32_t>(slots.size())});
    round.grants[place].why = heuristics::sharing::Why::kTurn;
    claimed.add(slots, round.shares[place]);
    freed.take(job, round.shares[place]);
  }
}

// Those that work there can move to what is free.
static bool can_displace(const ClusterState& state, const SchedulingRound& round, const Slots& slots) {
  return std::all_of(round.jobs.begin(), round.jobs.end(), [&](const Job* job) {
    const bool anywhere = job->spec.hosts.empty() && !job->spec.one_host && job->spec.most_hosts == 0;
    return anywhere ||
           std::none_of(slots.begin(), slots.end(), [&](auto slot) { return state.book.owner(slot) == job->id; });
  });
}

void exchange_turns(const ClusterState& state, SchedulingRound& round) {
  round.blocked.assign(round.jobs.size(), false);
  if (state.settings.suspended_per_slot == 0) return;
  find_full(state, round);
  Claimed claimed;
  for (std::size_t place = 0; place < round.jobs.size(); ++place) {
    const Slots& slots = state.book.lease(round.jobs[place]->id).slots;
    const bool stays = state.book.in_use(round.jobs[place]->id) > 0 && round.shares[place] >= slots.size();
    if (stays) claimed.add(slots, slots.size());
  }
  Freed freed;
  for (std::size_t place = 0; place < round.jobs.size(); ++place) {
    const Job& job = *round.jobs[place];
    if (round.shares[place] == 0 || state.book.in_use(job.id) > 0) continue;
    const Slots slots = within_reach(state, round, job, claimed);
    if (slots.size() >= job.spec.min) {
      claimed.add(slots, round.shares[place]);
    } else {
      freed.add(job, round.shares[place]);
      round.shares[place] = 0;
      round.blocked[place] = true;
    }
  }
  // Those that work at present come last: their turn is over.
  give_turns(state, round, false, claimed, freed);
  give_turns(state, round, true, claimed, freed);
  for (std::size_t place = 0; place < round.jobs.size(); ++place) {
    const Job& job = *round.jobs[place];
    const bool moves_others = round.blocked[place] && is_away(state, job) && freed.left(job) >= job.spec.min;
    if (!moves_others || !can_displace(state, round, own_place(state, round, job))) continue;
    round.shares[place] = std::min(freed.left(job), most_of(state, job, round.slots));
    round.blocked[place] = false;
    freed.take(job, round.shares[place]);
  }
}

}  // namespace elastictrain::cluster_core
