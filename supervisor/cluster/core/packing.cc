// Two jobs in the same slots: what the policy is told of it, and what becomes of its decision. The guest is leased the
// slots of its host, so it is placed after all others, and only where it needs none of its own.
#include <algorithm>
#include <cstdio>

#include "supervisor/cluster/core/deciding.h"
#include "supervisor/cluster/core/handling.h"

namespace elastictrain::jobs {

namespace sharing = heuristics::sharing;

// A guest must be able to leave, and gets what its host has: who has wishes, a deadline or limits stays alone.
static bool may_pack(const ClusterState& state, const Job& job) {
  const bool leaves = job.spec.suspends || (job.spec.stands && state.settings.suspended_per_slot > 0);
  const bool anywhere = job.spec.hosts.empty() && !job.spec.one_host && job.spec.most_hosts == 0;
  const bool unlimited = job.limits.slots == kNoLimit && job.limits.running == kNoLimit;
  return leaves && anywhere && unlimited && job.lost_hosts.empty() && !job.spec.deadline_s;
}

// A job that stands still goes on where it is: with the job that has exactly these slots now.
static std::optional<std::uint64_t> only_beside(const ClusterState& state, const Round& round, const Job& job) {
  if (!is_away(state, job)) return std::nullopt;
  const Slots there = state.book.parked(job.id);
  const auto found = state.jobs.find(state.book.owner(there.front()));
  const bool same = found != state.jobs.end() && own_place(state, round, job) == there &&
                    state.book.planned(found->first) == there && found->second.seen_as != 0;
  return same ? found->second.seen_as : sharing::kNoJob;
}

void tell_of_packing(const ClusterState& state, const Round& round, std::size_t place, sharing::JobView& view) {
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
void seat_guests(const ClusterState& state, Round& round) {
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
std::string packing_text(const Round& round, std::size_t place) {
  if (place >= round.host_of.size()) return "";
  const bool is_guest = round.is_guest(place);
  const std::size_t other = is_guest ? round.host_of[place] : round.guest_of[place];
  const std::size_t guest = is_guest ? place : other;
  if (other == Round::kNone || round.slots_of[guest].empty()) return "";
  return ", shares its slots with " + id_text(round.jobs[other]->id) + ", " + looks_text(round.grants[guest]);
}

}  // namespace elastictrain::jobs
