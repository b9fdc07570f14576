#include "heuristics/sharing/pairs.h"

#include <algorithm>
#include <cmath>

namespace elastictrain::heuristics::sharing {
namespace {

bool is_known(double rate) {
  return std::isfinite(rate) && rate > 0;
}

Grant grant_of(const Pairs::Pair& pair, double slots) {
  return {slots, pair.looks >= kLooks ? Why::kKept : Why::kTried, pair.together, pair.host, pair.looks};
}

}  // namespace

std::uint32_t Pairs::losses_of(std::uint64_t job) const {
  const auto found = losses_.find(job);
  return found == losses_.end() ? 0 : found->second;
}

void Pairs::list_guests() {
  guests_.clear();
  hosts_.clear();
  for (const Pair& pair : pairs_) {
    guests_.insert(pair.guest);
    hosts_.insert(pair.host);
  }
}

void Pairs::forget_gone() {
  const auto is_gone = [this](std::uint64_t job) { return !place_.contains(job); };
  std::erase_if(lost_, [&](const Key& pair) { return is_gone(pair.first) || is_gone(pair.second); });
  std::erase_if(losses_, [&](const auto& entry) { return is_gone(entry.first); });
  std::erase_if(pairs_, [&](const Pair& pair) { return is_gone(pair.host) || is_gone(pair.guest); });
}

// The caller remembers pairs that were made before this state was.
void Pairs::take_up(const View& view) {
  for (const JobView& job : view.jobs) {
    const bool known = guests_.contains(job.id) || hosts_.contains(job.id) || hosts_.contains(job.beside);
    if (job.beside == kNoJob || known || !place_.contains(job.beside)) continue;
    pairs_.push_back({.host = job.beside, .guest = job.id, .granted = true});
    list_guests();
  }
}

void Pairs::undo(const Pair& pair) {
  lost_.insert(std::minmax(pair.host, pair.guest));
  ++losses_[pair.host];
  ++losses_[pair.guest];
  undone_.push_back({pair, place_.at(pair.host), place_.at(pair.guest)});
}

Pairs::Verdict Pairs::judge(const View& view, Pair& pair) {
  const JobView& host = view.jobs[place_.at(pair.host)];
  const JobView& guest = view.jobs[place_.at(pair.guest)];
  if (host.held == 0) return Verdict::kStays;
  const bool seated = guest.beside == pair.host;
  if (!seated && pair.granted) return pair.seated ? Verdict::kParts : Verdict::kLoses;
  if (!seated) return Verdict::kStays;
  pair.seated = true;
  const bool measured = is_known(host.packed_rate) && is_known(guest.packed_rate) && is_known(host.alone_rate) &&
                        is_known(guest.alone_rate);
  const bool enough =
      host.packed_views >= pair.host_views + kLookViews && guest.packed_views >= pair.guest_views + kLookViews;
  if (!measured || !enough) return Verdict::kStays;
  pair.host_views = host.packed_views;
  pair.guest_views = guest.packed_views;
  pair.together = host.packed_rate / host.alone_rate + guest.packed_rate / guest.alone_rate;
  pair.losses = pair.together < 1 ? pair.losses + 1 : 0;
  ++pair.looks;
  return pair.losses < kLosses ? Verdict::kStays : Verdict::kLoses;
}

void Pairs::look(const View& view) {
  undone_.clear();
  place_.clear();
  for (std::uint32_t place = 0; place < view.jobs.size(); ++place) place_[view.jobs[place].id] = place;
  forget_gone();
  list_guests();
  take_up(view);
  std::erase_if(pairs_, [&](Pair& pair) {
    const Verdict verdict = judge(view, pair);
    if (verdict == Verdict::kLoses) undo(pair);
    return verdict != Verdict::kStays;
  });
  list_guests();
}

void Pairs::grant(const View& view, bool waiting, std::uint32_t& free, Decision& decision) {
  std::erase_if(pairs_, [&](Pair& pair) {
    const std::uint32_t guest = place_.at(pair.guest);
    const double slots = decision.grants[place_.at(pair.host)].slots;
    const std::uint32_t wanted = view.jobs[guest].requested;
    pair.granted = slots == wanted;
    if (pair.granted && !waiting && free >= wanted) {
      decision.grants[guest] = {slots, Why::kFits, 0};
      free -= wanted;
      return true;
    }
    if (pair.granted) decision.grants[guest] = grant_of(pair, slots);
    return false;
  });
  list_guests();
}

bool Pairs::may_be_tried(const JobView& job) const {
  return job.packs && is_known(job.alone_rate) && losses_of(job.id) < kTries;
}

// Jobs that keep their slots and could have a guest there.
std::vector<std::uint32_t> Pairs::open_hosts(const View& view, const std::vector<std::uint32_t>& order,
                                             const Decision& decision) const {
  std::vector<std::uint32_t> hosts;
  for (const std::uint32_t place : order) {
    const JobView& job = view.jobs[place];
    const bool keeps = job.held > 0 && decision.grants[place].slots == job.held && job.held == job.requested;
    const bool paired = hosts_.contains(job.id) || guests_.contains(job.id);
    if (keeps && may_be_tried(job) && !paired) hosts.push_back(place);
  }
  return hosts;
}

// The end if there is none.
std::vector<std::uint32_t>::iterator Pairs::best_host(const View& view, const JobView& guest,
                                                      std::vector<std::uint32_t>& hosts) const {
  auto best = hosts.end();
  for (auto host = hosts.begin(); host != hosts.end(); ++host) {
    const JobView& job = view.jobs[*host];
    const bool within_reach = !guest.only_beside || *guest.only_beside == job.id;
    if (job.requested != guest.requested || !within_reach || has_lost(guest.id, job.id)) continue;
    if (best == hosts.end() || losses_of(job.id) < losses_of(view.jobs[*best].id)) best = host;
  }
  return best;
}

void Pairs::add(const View& view, const std::vector<std::uint32_t>& order, Decision& decision) {
  std::vector<std::uint32_t> hosts = open_hosts(view, order, decision);
  for (const std::uint32_t place : order) {
    const JobView& job = view.jobs[place];
    const bool waits = decision.grants[place].slots == 0 && job.held == 0;
    const bool paired = guests_.contains(job.id) || hosts_.contains(job.id);
    if (!waits || !may_be_tried(job) || paired) continue;
    const auto host = best_host(view, job, hosts);
    if (host == hosts.end()) continue;
    pairs_.push_back({.host = view.jobs[*host].id, .guest = job.id, .granted = true});
    hosts_.insert(pairs_.back().host);
    guests_.insert(job.id);
    decision.grants[place] = grant_of(pairs_.back(), job.requested);
    hosts.erase(host);
  }
}

void Pairs::explain(Decision& decision) const {
  for (const Undone& undone : undone_) {
    for (const std::uint32_t place : {undone.guest, undone.host}) {
      Grant& grant = decision.grants[place];
      if (grant.slots > 0 || undone.pair.together == 0) continue;
      grant = {0, Why::kUndone, undone.pair.together, kNoJob, undone.pair.looks};
      break;
    }
  }
}

}  // namespace elastictrain::heuristics::sharing
