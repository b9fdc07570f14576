// Workers that move between hosts although the size of their job stays: begun where the rule of heuristics/placement
// says that it pays, measured afterwards, and taken back where the job is slower. A move is a lease that names other
// slots; the old ones stay the job's own until its workers there have ended.
#include <algorithm>
#include <cstdio>
#include <utility>

#include "supervisor/cluster/core/deciding.h"
#include "supervisor/cluster/core/state.h"
#include "supervisor/protocol/check.h"

namespace elastictrain::cluster_core {

namespace placement = heuristics::placement;

namespace {

constexpr double kRateNoise = 0.02;      // of a measured speed
constexpr double kLookAgain_s = 5;       // where something could move and does not pay yet
constexpr double kAfterFailure_s = 600;  // before a job is moved again that did not get to its new slots

Slots without(Slots slots, const Slots& others) {
  std::erase_if(slots, [&](auto slot) { return std::binary_search(others.begin(), others.end(), slot); });
  return slots;
}

std::string text_of(const Slots& slots, const std::vector<HostLine>& hosts) {
  std::string text;
  for (const auto slot : slots) {
    text += (text.empty() ? "" : ", ") + hosts[slot.host].name + ":" + std::to_string(slot.number);
  }
  return text;
}

std::string hosts_text(std::uint32_t hosts) {
  return std::to_string(hosts) + (hosts == 1 ? " host" : " hosts");
}

std::string rate_text(double samples_per_s) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g samples/s", samples_per_s);
  return text;
}

}  // namespace

// --- While workers move

// Of the slots that it leaves, those that it has not given back.
static Slots leaving_slots(const ClusterState& state, const Job& job) {
  Slots away = without(job.move->from, job.move->to);
  std::erase_if(away, [&](auto slot) { return !state.book.owns(job.id, slot); });
  return away;
}

// All of them can be used.
static bool is_whole(const SchedulingRound& round, const Slots& slots) {
  return std::all_of(slots.begin(), slots.end(), [&](auto slot) { return round.is_usable(slot); });
}

// The new slots are of no use, and it still has all old ones.
static bool goes_back(const ClusterState& state, const SchedulingRound& round, const Job& job) {
  const bool lost = std::any_of(job.lost_hosts.begin(), job.lost_hosts.end(), [&](std::uint32_t host) {
    return std::any_of(job.move->to.begin(), job.move->to.end(), [&](auto slot) { return slot.host == host; });
  });
  const bool has_all = leaving_slots(state, job).size() == without(job.move->from, job.move->to).size();
  return (job.move->back || lost || !is_whole(round, job.move->to)) && has_all && is_whole(round, job.move->from);
}

// What a job leaves is for nobody before it is given back. Part of Cluster::reserve().
void keep_moves(const ClusterState& state, SchedulingRound& round) {
  for (std::size_t place = 0; place < round.jobs.size(); ++place) {
    const Job& job = *round.jobs[place];
    if (!job.move || round.shares[place] == 0) continue;
    const bool back = goes_back(state, round, job);
    Slots blocked = back ? job.move->from : leaving_slots(state, job);
    if (!back) blocked.insert(blocked.end(), job.move->kept.begin(), job.move->kept.end());
    for (const auto slot : blocked) {
      if (round.is_usable(slot)) round.open[slot.host][slot.number] = false;
    }
    if (!back) continue;
    round.reserved[place] = job.move->from;
    if (round.reserved[place].size() > round.shares[place]) round.reserved[place].resize(round.shares[place]);
  }
}

std::string move_text(const ClusterState& state, const Job& job) {
  if (!job.move) return "";
  return ", moves " + text_of(without(job.move->from, job.move->to), state.hosts) + " to " +
         text_of(without(job.move->to, job.move->from), state.hosts) + ": " + job.move->why;
}

void end_move(ClusterState& state, Job& job, record::MoveOutcome outcome, const std::string& why, double now_s) {
  ET_CHECK(job.move || job.trial, "a move ends that was begun");
  write_record(state, record::MoveEnded{job.id, outcome, why});
  const bool is_done = outcome == record::MoveOutcome::kDone;
  const bool compares = is_done && !job.move->undoes && hosts_of(job.move->from) != hosts_of(job.move->to);
  if (compares) job.trial = {job.move->from, job.move->to};
  if (!is_done || !compares) job.trial.reset();
  if (outcome == record::MoveOutcome::kTakenBack) job.may_move_from_s = now_s + kAfterFailure_s;
  job.move.reset();
}

// It has given back slots.
void take_moved(ClusterState& state, Job& job, double now_s) {
  if (!leaving_slots(state, job).empty()) return;
  end_move(state, job, record::MoveOutcome::kDone, "on " + text_of(state.book.lease(job.id).slots, state.hosts), now_s);
  decide_soon(state, now_s, id_text(job.id) + " has moved");
}

// What was decided now is not what a move is about.
void end_moves(ClusterState& state, const SchedulingRound& round, double now_s) {
  for (std::size_t place = 0; place < round.jobs.size(); ++place) {
    Job& job = *round.jobs[place];
    const Slots& slots = round.slots_of[place];
    if (!job.move || (slots == job.move->to && !job.move->back)) continue;
    const bool back = slots == job.move->from;
    end_move(state, job, back ? record::MoveOutcome::kTakenBack : record::MoveOutcome::kSuperseded,
             back ? "it stays where it was" : "its slots are others now", now_s);
  }
}

// --- Which moves pay

// It trains on all that it has and is meant to have, was measured there, and has not been changed for a while.
static bool is_steady(const ClusterState& state, const SchedulingRound& round, std::size_t place, double now_s) {
  const Job& job = *round.jobs[place];
  const auto& lease = state.book.lease(job.id);
  const Slots& slots = round.slots_of[place];
  const bool alone = !round.is_guest(place) && round.guest_of[place] == SchedulingRound::kNone && lease.beside == 0;
  const bool follows = job.phase == Phase::kJoined && job.reported && !job.paused && !lease.hold &&
                       state.book.seen(job.id) == lease.version && job.run_phase == "training";
  const bool settled = slots == lease.slots && slots == state.book.owned(job.id) && slots == state.book.held(job.id) &&
                       state.book.parked(job.id).empty() && job.workers == slots.size();
  const auto size = static_cast<std::uint32_t>(slots.size());
  const auto rate = job.rates_by_hosts.find({size, hosts_of(slots)});
  const bool measured = rate != job.rates_by_hosts.end() && rate->second.counts();
  return job.moves && alone && follows && settled && measured && now_s >= job.may_move_from_s &&
         now_s >= job.placed_s + placement::rest_s(job.start_s);
}

static std::vector<std::vector<bool>> free_slots(const ClusterState& state, const SchedulingRound& round) {
  std::vector<std::vector<bool>> free = round.open;
  for (std::uint32_t host = 0; host < free.size(); ++host) {
    for (std::uint32_t number = 0; number < free[host].size(); ++number) {
      const heuristics::leases::Slot slot{host, number};
      const bool used = state.book.owner(slot) != heuristics::leases::kNobody || state.book.parked_on(slot) > 0;
      if (used) free[host][number] = false;
    }
  }
  for (const Slots& slots : round.slots_of) {
    for (const auto slot : slots) free[slot.host][slot.number] = false;
  }
  return free;
}

static placement::Resident resident_of(const ClusterState& state, const SchedulingRound& round, std::size_t place,
                                       double now_s) {
  const Job& job = *round.jobs[place];
  placement::Resident resident;
  resident.held = pieces_of(round.slots_of[place]);
  resident.may_move = is_steady(state, round, place, now_s);
  const std::vector<std::uint32_t> room = room_for(state, job, std::vector<std::uint32_t>(state.hosts.size(), 1));
  for (const std::uint32_t one : room) resident.may_use.push_back(one > 0);
  // Of unknown length: a job that has trained for so long trains as long again.
  resident.left_s = left_s(state, job).value_or(job.running_s);
  resident.start_s = job.start_s;
  resident.step_s = job.step > 0 ? job.running_s / static_cast<double>(job.step) : 0;
  for (const auto& [size, measured] : job.rates_by_hosts) {
    if (size.first == round.slots_of[place].size() && measured.counts()) {
      resident.rate[size.second] = measured.samples_per_s;
    }
  }
  return resident;
}

// Jobs that are to have slots, and for which no host has enough.
static std::vector<placement::Seeker> seekers(const ClusterState& state, const SchedulingRound& round,
                                              std::vector<std::size_t>& places) {
  std::vector<placement::Seeker> seekers;
  for (std::size_t place = 0; place < round.shares.size(); ++place) {
    const Job& job = *round.jobs[place];
    const bool waits = round.shares[place] >= job.spec.min && round.slots_of[place].empty() && !round.is_guest(place) &&
                       !is_away(state, job) && !round.blocked[place];
    if (!waits) continue;
    placement::Seeker seeker{job.spec.min, {}};
    for (const std::uint32_t one : room_for(state, job, std::vector<std::uint32_t>(state.hosts.size(), 1))) {
      seeker.may_use.push_back(one > 0);
    }
    seekers.push_back(std::move(seeker));
    places.push_back(place);
  }
  return seekers;
}

static void begin_move(ClusterState& state, SchedulingRound& round, std::size_t place, Move move) {
  Job& job = *round.jobs[place];
  ET_CHECK(!job.move, "a job moves once at a time");
  job.trial.reset();
  write_record(state, record::Moving{job.id, move.from, move.to, move.why, move.kept, move.undoes});
  round.slots_of[place] = move.to;
  job.move = std::move(move);
}

// Compares what was measured before and after a move. True: one is taken back now.
static bool judge_repair(ClusterState& state, SchedulingRound& round, const std::vector<std::vector<bool>>& free,
                         double now_s) {
  for (std::size_t place = 0; place < round.shares.size(); ++place) {
    Job& job = *round.jobs[place];
    if (!job.trial || !is_steady(state, round, place, now_s)) continue;
    const Trial trial = *job.trial;
    const auto size = static_cast<std::uint32_t>(trial.to.size());
    const std::uint32_t hosts = hosts_of(trial.from), hosts_now = hosts_of(trial.to);
    if (round.slots_of[place] != trial.to) {
      end_move(state, job, record::MoveOutcome::kSuperseded, "its slots are others now", now_s);
      continue;
    }
    const Measured before = job.rates_by_hosts[{size, hosts}], after = job.rates_by_hosts[{size, hosts_now}];
    const bool slower = before.counts() && after.samples_per_s < before.samples_per_s * (1 - kRateNoise);
    const Slots old = without(trial.from, trial.to);
    const bool can = std::all_of(old.begin(), old.end(),
                                 [&](auto slot) { return round.is_usable(slot) && free[slot.host][slot.number]; });
    const std::string why = rate_text(after.samples_per_s) + " on " + hosts_text(hosts_now) + ", " +
                            rate_text(before.samples_per_s) + " on " + hosts_text(hosts);
    end_move(state, job, slower && can ? record::MoveOutcome::kUndone : record::MoveOutcome::kKept,
             why + (slower && !can ? "; the slots that it had are in use" : ""), now_s);
    if (!slower || !can) continue;
    begin_move(state, round, place, {round.slots_of[place], trial.from, "undone, " + why, now_s, false, true, {}});
    return true;
  }
  return false;
}

// After all jobs are placed: at most one repair is under way.
void repair_placement(ClusterState& state, SchedulingRound& round, double now_s) {
  const bool moves =
      std::any_of(state.jobs.begin(), state.jobs.end(), [](const auto& entry) { return entry.second.move; });
  if (!state.settings.migration || moves || state.hosts.size() < 2) return;
  std::vector<std::vector<bool>> free = free_slots(state, round);
  if (judge_repair(state, round, free, now_s)) return;
  std::vector<std::size_t> places, seeking;
  const auto waiting = seekers(state, round, seeking);
  bool spans = false;
  for (std::size_t place = 0; place < round.shares.size(); ++place) {
    if (round.slots_of[place].empty() || round.is_guest(place)) continue;
    spans = spans || hosts_of(round.slots_of[place]) > 1;
    places.push_back(place);
  }
  const bool tries =
      std::any_of(state.jobs.begin(), state.jobs.end(), [](const auto& entry) { return entry.second.trial; });
  if (!spans && !tries && waiting.empty()) return;
  std::vector<placement::Resident> residents;
  for (const std::size_t place : places) residents.push_back(resident_of(state, round, place, now_s));
  std::vector<std::uint32_t> counts;
  for (const auto& host : free) {
    counts.push_back(static_cast<std::uint32_t>(std::count(host.begin(), host.end(), true)));
  }
  const placement::Repair found = placement::find_repair(counts, residents, waiting);
  for (const placement::Move& move : found.moves) {
    const std::size_t place = places[move.job];
    Slots to;
    for (const auto& piece : move.to) {
      std::uint32_t missing = piece.slots;
      for (const auto slot : round.slots_of[place]) {
        if (slot.host == piece.host && missing > 0 && missing-- > 0) to.push_back(slot);
      }
      for (std::uint32_t number = 0; number < free[piece.host].size() && missing > 0; ++number) {
        if (!free[piece.host][number]) continue;
        free[piece.host][number] = false;
        to.push_back({piece.host, number});
        --missing;
      }
    }
    std::sort(to.begin(), to.end());
    const std::string why =
        found.seeker == SIZE_MAX
            ? hosts_text(hosts_of(to)) + " instead of " + std::to_string(hosts_of(round.slots_of[place]))
            : "makes room for " + id_text(round.jobs[seeking[found.seeker]]->id);
    Move begun{round.slots_of[place], std::move(to), why, now_s, false, false, {}};
    const std::uint32_t host = begun.from.front().host;
    for (std::uint32_t number = 0; found.seeker != SIZE_MAX && number < free[host].size(); ++number) {
      if (free[host][number]) begun.kept.push_back({host, number});
    }
    begin_move(state, round, place, std::move(begun));
  }
  if (found.moves.empty()) state.again_s = std::min(state.again_s, now_s + kLookAgain_s);
}

}  // namespace elastictrain::cluster_core
