#include <algorithm>
#include <cstdio>
#include <functional>

#include "heuristics/placement/placement.h"
#include "supervisor/cluster/core/deciding.h"
#include "supervisor/cluster/core/state.h"

// Two jobs in the same slots: what the policy is told of it, and what becomes of its decision. The guest is leased the
// slots of its host, so it is placed after all others, and only where it needs none of its own.

namespace elastictrain::cluster_core {

namespace sharing = heuristics::sharing;

// A guest must be able to leave, and gets what its host has: who has wishes, a deadline or limits stays alone.
static bool may_pack(const ClusterState& state, const Job& job) {
  const bool leaves = job.spec.suspends || (job.spec.stands && state.settings.suspended_per_slot > 0);
  const bool anywhere = job.spec.hosts.empty() && !job.spec.one_host && job.spec.most_hosts == 0;
  const bool unlimited = job.limits.slots == kNoLimit && job.limits.running == kNoLimit;
  return leaves && anywhere && unlimited && job.lost_hosts.empty() && !job.spec.deadline_s;
}

// A job that stands still goes on where it is: with the job that has exactly these slots now.
static std::optional<std::uint64_t> only_beside(const ClusterState& state, const SchedulingRound& round,
                                                const Job& job) {
  if (!is_away(state, job)) return std::nullopt;
  const Slots there = state.book.parked(job.id);
  const auto found = state.jobs.find(state.book.owner(there.front()));
  const bool same = found != state.jobs.end() && own_place(state, round, job) == there &&
                    state.book.planned(found->first) == there && found->second.seen_as != 0;
  return same ? found->second.seen_as : sharing::kNoJob;
}

void tell_of_packing(const ClusterState& state, const SchedulingRound& round, std::size_t place,
                     sharing::JobView& view) {
  const Job& job = *round.jobs[place];
  view.packs = may_pack(state, job);
  if (const auto host = state.jobs.find(job.beside); host != state.jobs.end() && host->second.seen_as != 0) {
    view.beside = host->second.seen_as;
  }
  view.only_beside = only_beside(state, round, job);
  const auto alone = job.rates.find(view.requested);
  if (alone != job.rates.end() && alone->second.counts()) view.alone_rate = alone->second.samples_per_s;
  if (job.packed.rate.views == 0) return;
  view.packed_rate = job.packed.rate.samples_per_s;
  view.packed_views = job.packed.rate.views;
}

// After all others are placed.
void assign_guests(const ClusterState& state, SchedulingRound& round) {
  for (std::size_t place = 0; place < round.jobs.size(); ++place) {
    if (!round.is_guest(place)) continue;
    const Job& job = *round.jobs[place];
    const Slots& slots = round.slots_of[round.host_of[place]];
    const bool fits = slots.size() == static_cast<std::size_t>(round.grants[place].slots) &&
                      slots.size() >= job.spec.min && slots.size() <= most_of(state, job, round.slots);
    const bool there = !is_away(state, job) || own_place(state, round, job) == slots;
    if (fits && there) round.slots_of[place] = slots;
  }
}

std::string looks_text(const sharing::Grant& grant) {
  if (grant.looks == 0) return "together not measured yet";
  char text[64];
  std::snprintf(text, sizeof text, "together %.3g of one alone at look %u", grant.number, grant.looks);
  return text;
}

// Beside whom, and what both do together.
std::string packing_text(const SchedulingRound& round, std::size_t place) {
  if (place >= round.host_of.size()) return "";
  const bool is_guest = round.is_guest(place);
  const std::size_t other = is_guest ? round.host_of[place] : round.guest_of[place];
  const std::size_t guest = is_guest ? place : other;
  if (other == SchedulingRound::kNone || round.slots_of[guest].empty()) return "";
  return ", shares its slots with " + id_text(round.jobs[other]->id) + ", " + looks_text(round.grants[guest]);
}

// Shares into slots by number. The slots that a job is meant to have are the ground: what it holds stays where it is,
// and a slot that passes on is taken from those that are free before those that somebody has to give back.

namespace placement = heuristics::placement;
using heuristics::leases::kNobody;

namespace {

// Never more than there is on a host: those that were placed before have the first right.
void clip(std::vector<placement::Piece>& pieces, std::vector<std::uint32_t>& left) {
  for (auto& piece : pieces) {
    piece.slots = std::min(piece.slots, left[piece.host]);
    left[piece.host] -= piece.slots;
  }
  std::erase_if(pieces, [](const placement::Piece& piece) { return piece.slots == 0; });
}

void keep_largest(std::vector<placement::Piece>& pieces, std::uint32_t most_hosts) {
  if (most_hosts == 0 || pieces.size() <= most_hosts) return;
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const placement::Piece& a, const placement::Piece& b) { return a.slots > b.slots; });
  pieces.resize(most_hosts);
  std::sort(pieces.begin(), pieces.end(),
            [](const placement::Piece& a, const placement::Piece& b) { return a.host < b.host; });
}

// Chooses numbers for the pieces of all jobs on one host after another.
class Numbers {
 public:
  // Of two owners the given one counts.
  using Owner = std::function<JobId(JobId, heuristics::leases::Slot)>;

  Numbers(std::vector<std::vector<bool>> free, Owner owner) : free_(std::move(free)), owner_(std::move(owner)) {}

  // Of the slots that it is meant to have on this host. The newest go first: those that it does not own yet, then the
  // highest numbers.
  void keep(JobId job, placement::Piece piece, const Slots& planned, Slots& kept) {
    std::vector<heuristics::leases::Slot> here;
    for (const auto slot : planned) {
      if (slot.host == piece.host && free_[slot.host][slot.number]) here.push_back(slot);
    }
    std::stable_sort(here.begin(), here.end(),
                     [&](auto a, auto b) { return (owner_(job, a) == job) > (owner_(job, b) == job); });
    if (here.size() > piece.slots) here.resize(piece.slots);
    for (const auto slot : here) take(slot, kept);
  }

  // The others: its own ones first, then those of nobody, then those that somebody has to give back.
  void add(JobId job, placement::Piece piece, Slots& kept) {
    const auto has = static_cast<std::uint32_t>(
        std::count_if(kept.begin(), kept.end(), [&](auto slot) { return slot.host == piece.host; }));
    std::uint32_t missing = piece.slots - std::min(piece.slots, has);
    for (int rank = 0; rank < 3; ++rank) {
      for (std::uint32_t number = 0; missing > 0 && number < free_[piece.host].size(); ++number) {
        const heuristics::leases::Slot slot{piece.host, number};
        if (!free_[piece.host][number] || rank_of(job, slot) != rank) continue;
        take(slot, kept);
        --missing;
      }
    }
  }

 private:
  int rank_of(JobId job, heuristics::leases::Slot slot) const {
    const JobId owner = owner_(job, slot);
    return owner == job ? 0 : owner == kNobody ? 1 : 2;
  }
  void take(heuristics::leases::Slot slot, Slots& slots) {
    free_[slot.host][slot.number] = false;
    slots.push_back(slot);
  }

  std::vector<std::vector<bool>> free_;
  Owner owner_;
};

}  // namespace

std::vector<placement::Piece> pieces_of(const Slots& slots) {
  std::vector<placement::Piece> pieces;
  for (const auto slot : slots) {
    if (pieces.empty() || pieces.back().host != slot.host) pieces.push_back({slot.host, 0});
    ++pieces.back().slots;
  }
  return pieces;
}

std::vector<std::uint32_t> room_for(const ClusterState& state, const Job& job, const std::vector<std::uint32_t>& free) {
  std::vector<std::uint32_t> room = free;
  for (std::uint32_t host = 0; host < room.size(); ++host) {
    const auto& asked = job.spec.hosts;
    const bool allowed = asked.empty() || std::find(asked.begin(), asked.end(), state.hosts[host].name) != asked.end();
    const bool lost = job.has_lost(host);
    if (!allowed || lost) room[host] = 0;
  }
  return room;
}

// Without the slots that other jobs have and keep: nobody moves to a host that this one has found lost for the sake of
// a size that it can do without.
static std::vector<std::uint32_t> room_beside(const ClusterState& state, const SchedulingRound& round,
                                              std::size_t place, const std::vector<Slots>& planned,
                                              const std::vector<std::uint32_t>& free) {
  std::vector<std::uint32_t> room = free;
  for (std::size_t other = 0; other < round.jobs.size(); ++other) {
    if (other == place || !round.reserved[other].empty()) continue;
    const std::size_t kept = std::min<std::size_t>(round.shares[other], planned[other].size());
    for (std::size_t i = 0; i < kept; ++i) room[planned[other][i].host] -= room[planned[other][i].host] > 0 ? 1 : 0;
  }
  return room_for(state, *round.jobs[place], room);
}

static std::vector<placement::Piece> pieces_within(const SchedulingRound& round, std::size_t place,
                                                   const std::vector<Slots>& planned,
                                                   const std::vector<std::uint32_t>& room) {
  const JobSpec& spec = round.jobs[place]->spec;
  std::vector<std::uint32_t> left = room;
  placement::Job asked{round.shares[place], spec.one_host || spec.most_hosts == 1, pieces_of(planned[place])};
  clip(asked.held, left);
  auto pieces = placement::place(room, {asked}).front().pieces;
  keep_largest(pieces, spec.most_hosts);
  return pieces;
}

// Jobs that may not use every host are placed first, each alone; then all others together.
static std::vector<std::vector<placement::Piece>> pieces_for(const ClusterState& state, const SchedulingRound& round,
                                                             const std::vector<Slots>& planned) {
  std::vector<std::uint32_t> free;
  for (const auto& host : round.open) {
    free.push_back(static_cast<std::uint32_t>(std::count(host.begin(), host.end(), true)));
  }
  std::vector<std::vector<placement::Piece>> pieces(round.jobs.size());
  std::vector<std::size_t> others;
  for (std::size_t place = 0; place < round.jobs.size(); ++place) {
    pieces[place] = pieces_of(round.reserved[place]);
  }
  for (std::size_t place = 0; place < round.jobs.size(); ++place) {
    const Job& job = *round.jobs[place];
    if (round.shares[place] == 0 || !round.reserved[place].empty()) continue;
    if (job.spec.hosts.empty() && job.lost_hosts.empty()) {
      others.push_back(place);
      continue;
    }
    if (job.spec.hosts.empty()) {
      pieces[place] = pieces_within(round, place, planned, room_beside(state, round, place, planned, free));
    }
    if (placement::Placed{pieces[place]}.slots() < job.spec.min) {
      pieces[place] = pieces_within(round, place, planned, room_for(state, job, free));
    }
    for (const auto& piece : pieces[place]) free[piece.host] -= piece.slots;
  }
  std::vector<std::uint32_t> left = free;
  std::vector<placement::Job> asked;
  for (const std::size_t place : others) {
    const JobSpec& spec = round.jobs[place]->spec;
    asked.push_back({round.shares[place], spec.one_host || spec.most_hosts == 1, pieces_of(planned[place])});
    clip(asked.back().held, left);
  }
  auto placed = placement::place(free, asked);
  for (std::size_t i = 0; i < others.size(); ++i) {
    keep_largest(placed[i].pieces, round.jobs[others[i]]->spec.most_hosts);
    pieces[others[i]] = std::move(placed[i].pieces);
  }
  return pieces;
}

// The most slots that hosts that it asks for have.
std::uint32_t reach_of(const ClusterState& state, const JobSpec& spec) {
  std::vector<std::uint32_t> slots;
  for (const HostLine& host : state.hosts) {
    const bool allowed =
        spec.hosts.empty() || std::find(spec.hosts.begin(), spec.hosts.end(), host.name) != spec.hosts.end();
    if (allowed) slots.push_back(host.slots);
  }
  std::sort(slots.rbegin(), slots.rend());
  const std::size_t most_hosts = spec.one_host ? 1 : spec.most_hosts == 0 ? slots.size() : spec.most_hosts;
  if (slots.size() > most_hosts) slots.resize(most_hosts);
  std::uint32_t sum = 0;
  for (const std::uint32_t one : slots) sum += one;
  return sum;
}

// What is left in pieces may hold a job at a smaller size.
static void place_smaller(const ClusterState& state, const SchedulingRound& round,
                          std::vector<std::vector<placement::Piece>>& placed) {
  std::vector<std::uint32_t> free;
  for (const auto& host : round.open) {
    free.push_back(static_cast<std::uint32_t>(std::count(host.begin(), host.end(), true)));
  }
  for (std::size_t place = 0; place < placed.size(); ++place) {
    if (!round.reserved[place].empty()) continue;
    for (const auto& piece : placed[place]) free[piece.host] -= piece.slots;
  }
  for (std::size_t place = 0; place < round.jobs.size(); ++place) {
    const Job& job = *round.jobs[place];
    if (round.shares[place] == 0 || placement::Placed{placed[place]}.slots() >= job.spec.min) continue;
    for (const auto& piece : placed[place]) free[piece.host] += piece.slots;
    placed[place].clear();
    const std::vector<std::uint32_t> room = room_for(state, job, free);
    const bool one_host = job.spec.one_host || job.spec.most_hosts == 1;
    for (std::uint32_t slots = round.shares[place]; slots >= job.spec.min; --slots) {
      auto pieces = placement::place(room, {{slots, one_host, {}}}).front().pieces;
      keep_largest(pieces, job.spec.most_hosts);
      if (placement::Placed{pieces}.slots() < job.spec.min) continue;
      for (const auto& piece : pieces) free[piece.host] -= piece.slots;
      placed[place] = std::move(pieces);
      break;
    }
  }
}

void place_jobs(ClusterState& state, SchedulingRound& round) {
  reserve_slots(state, round);
  std::vector<Slots> planned(round.jobs.size());
  for (std::size_t place = 0; place < round.jobs.size(); ++place) {
    const JobId job = round.jobs[place]->id;
    planned[place] = state.book.lease(job).hold ? state.book.owned(job) : state.book.planned(job);
    // A guest has no share here: assign_guests(state) gives it the slots of its host.
    const bool leaves_host = round.jobs[place]->beside != 0 &&
                             std::any_of(round.jobs.begin(), round.jobs.end(),
                                         [&](const Job* other) { return other->id == round.jobs[place]->beside; });
    if (leaves_host) planned[place].clear();
    std::erase_if(planned[place],
                  [&](auto slot) { return !round.is_usable(slot) || !round.open[slot.host][slot.number]; });
  }
  auto placed = pieces_for(state, round, planned);
  place_smaller(state, round, placed);
  round.slots_of.assign(round.jobs.size(), {});
  Numbers numbers(round.open, [&](JobId job, heuristics::leases::Slot slot) {
    return state.book.owns(job, slot) ? job : state.book.owner(slot);
  });
  for (std::size_t place = 0; place < round.jobs.size(); ++place) {
    round.slots_of[place] = round.reserved[place];
    if (!round.reserved[place].empty()) continue;
    for (const auto& piece : placed[place]) {
      numbers.keep(round.jobs[place]->id, piece, planned[place], round.slots_of[place]);
    }
  }
  for (std::size_t place = 0; place < round.jobs.size(); ++place) {
    Slots& slots = round.slots_of[place];
    if (!round.reserved[place].empty()) continue;
    for (const auto& piece : placed[place]) numbers.add(round.jobs[place]->id, piece, slots);
    std::sort(slots.begin(), slots.end());
    const bool too_few = slots.size() < round.jobs[place]->spec.min;
    if (too_few && !at_work(state, *round.jobs[place])) slots.clear();
  }
}

}  // namespace elastictrain::cluster_core
