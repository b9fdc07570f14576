#include "heuristics/leases/lease_book.h"

#include <algorithm>
#include <limits>

namespace elastictrain::heuristics::leases {
namespace {

std::string text_of(Slot slot) {
  return std::to_string(slot.host) + ":" + std::to_string(slot.number);
}

bool contains(const Slots& slots, Slot slot) {
  return std::binary_search(slots.begin(), slots.end(), slot);
}

}  // namespace

LeaseBook::Place* LeaseBook::find(Slot slot) {
  const bool known = slot.host < places_.size() && slot.number < places_[slot.host].size();
  return known ? &places_[slot.host][slot.number] : nullptr;
}

const LeaseBook::Place* LeaseBook::find(Slot slot) const {
  return const_cast<LeaseBook*>(this)->find(slot);
}

bool LeaseBook::exists(Slot slot) const {
  return slot.host < slots_.size() && slot.number < slots_[slot.host];
}

template <class Use>
void LeaseBook::each_place(Use use) {
  for (std::uint32_t host = 0; host < places_.size(); ++host) {
    for (std::uint32_t number = 0; number < places_[host].size(); ++number) {
      use(Slot{host, number}, places_[host][number]);
    }
  }
}

template <class Choose>
Slots LeaseBook::choose_owned(Holder holder, Choose choose) const {
  Slots chosen;
  const auto found = accounts_.find(holder);
  if (found == accounts_.end()) return chosen;
  for (const Slot slot : found->second.owned) {
    if (choose(*find(slot))) chosen.push_back(slot);
  }
  return chosen;
}

void LeaseBook::set_planned(Slot slot, Holder holder) {
  Place& place = *find(slot);
  if (place.planned == holder) return;
  if (place.planned != kNobody) accounts_[place.planned].planned.erase(slot);
  if (holder != kNobody) accounts_[holder].planned.insert(slot);
  place.planned = holder;
}

void LeaseBook::pass(Slot slot, Holder holder, bool leased) {
  Place& place = *find(slot);
  if (place.owner != kNobody) accounts_[place.owner].owned.erase(slot);
  if (holder != kNobody) accounts_[holder].owned.insert(slot);
  place = {.owner = holder, .planned = place.planned, .leased = leased, .parked = place.parked};
}

void LeaseBook::stay(Account& account, Slot slot) {
  if (account.parked.insert(slot).second) ++find(slot)->parked;
}

void LeaseBook::wake(Account& account, Slot slot) {
  if (account.parked.erase(slot) > 0) --find(slot)->parked;
}

// The processes elsewhere are gone.
void LeaseBook::keep_parked(Account& account, const Slots& holds) {
  const Slots before(account.parked.begin(), account.parked.end());
  for (const Slot slot : before) {
    if (!contains(holds, slot)) wake(account, slot);
  }
}

void LeaseBook::set_host(std::uint32_t host, std::uint32_t slots) {
  if (places_.size() <= host) {
    places_.resize(host + 1);
    slots_.resize(host + 1);
  }
  slots_[host] = slots;
  if (places_[host].size() < slots) places_[host].resize(slots);
  for (std::uint32_t number = slots; number < places_[host].size(); ++number) set_planned({host, number}, kNobody);
}

void LeaseBook::plan(const std::vector<std::pair<Holder, Slots>>& plan) {
  for (const auto& [holder, slots] : plan) {
    const auto found = accounts_.find(holder);
    if (found == accounts_.end()) continue;
    const std::set<Slot> before = found->second.planned;
    for (const Slot slot : before) {
      if (!contains(slots, slot)) set_planned(slot, kNobody);
    }
  }
  for (const auto& [holder, slots] : plan) {
    if (const auto found = accounts_.find(holder); found != accounts_.end()) found->second.parks = false;
    for (const Slot slot : slots) {
      if (exists(slot)) set_planned(slot, holder);
    }
  }
}

void LeaseBook::park(Holder holder) {
  accounts_[holder].parks = true;
}

void LeaseBook::take_out(Account& account, Place& place, double now_s) {
  place.leased = false;
  place.recalled_s = now_s;
  place.recall_version = account.lease.version + 1;
  account.changed = true;
}

// Processes that stand still on some of its slots would not know what to do on a part of them.
bool LeaseBook::may_go_on(Holder holder) const {
  const Account& account = accounts_.at(holder);
  if (account.parked.empty()) return true;
  return std::all_of(account.planned.begin(), account.planned.end(),
                     [&](Slot slot) { return owner(slot) == kNobody || owner(slot) == holder; });
}

std::vector<Holder> LeaseBook::settle(double now_s) {
  std::set<Holder> waiting;
  for (const auto& [holder, account] : accounts_) {
    if (!may_go_on(holder)) waiting.insert(holder);
  }
  each_place([&](Slot slot, Place& place) {
    const bool can_pass = place.owner == kNobody || place.owner == place.planned;
    if (place.leased && place.planned != place.owner) {
      if (!accounts_[place.owner].parks) take_out(accounts_[place.owner], place, now_s);
    } else if (!place.leased && place.planned != kNobody && can_pass && !waiting.contains(place.planned)) {
      pass(slot, place.planned, true);
      place.heard = true;
      wake(accounts_[place.owner], slot);
      accounts_[place.owner].changed = true;
    }
  });
  std::vector<Holder> changed;
  for (auto& [holder, account] : accounts_) {
    if (make_lease(holder, account, now_s)) changed.push_back(holder);
  }
  return changed;
}

bool LeaseBook::make_lease(Holder holder, Account& account, double now_s) {
  const bool had_hold = account.lease.hold;
  if (!account.changed && !had_hold && !account.parks) return false;
  Slots leased = choose_owned(holder, [](const Place& place) { return place.leased; });
  const bool holds = account.stands(!leased.empty()) && !(leased.empty() && account.parked.empty());
  const bool is_away = holds && leased.empty();  // what it was told counts on
  const bool differs = account.changed || holds != had_hold;
  account.changed = false;
  if (is_away || !differs) return false;
  if (holds && !had_hold) account.parks_s = now_s;
  account.lease = {account.lease.version + 1, std::move(leased), holds};
  return true;
}

std::string LeaseBook::check(Holder holder, const Heard& heard, Claims claims) const {
  const Slots still = parked(holder);
  if (heard.version > lease(holder).version && claims == Claims::kOwn) {
    return "it follows version " + std::to_string(heard.version) + " of its lease; the newest is " +
           std::to_string(lease(holder).version);
  }
  for (const Slot slot : heard.holds) {
    const Place* const place = find(slot);
    if (place == nullptr) return "there is no slot " + text_of(slot);
    if (place->owner == holder || contains(still, slot)) continue;
    const bool free = place->owner == kNobody && claims != Claims::kOwn;
    const bool unheard = place->owner != kNobody && !place->heard && claims == Claims::kAny;
    if (!free && !unheard) return "slot " + text_of(slot) + " was not leased to it, or it was given back";
  }
  return "";
}

void LeaseBook::claim(Holder holder, Slot slot, double now_s) {
  Place& place = *find(slot);
  if (place.owner != holder) {
    if (place.leased) accounts_[place.owner].changed = true;
    if (place.planned == place.owner) set_planned(slot, kNobody);
    pass(slot, holder, false);
    place.recalled_s = now_s;
    place.recall_version = accounts_[holder].lease.version;
  }
  place.heard = true;
}

Slots LeaseBook::hear(Holder holder, const Heard& heard, double now_s) {
  Account& account = accounts_[holder];
  account.seen = heard.version;
  account.held = heard.holds;
  account.lease.version = std::max(account.lease.version, heard.version);
  keep_parked(account, heard.holds);
  for (const Slot slot : heard.holds) {
    if (!account.parked.contains(slot)) claim(holder, slot, now_s);
  }
  const Slots returned =
      choose_owned(holder, [&](const Place& place) { return !place.leased && heard.version >= place.recall_version; });
  Slots back;
  for (const Slot slot : returned) {
    if (contains(heard.holds, slot)) continue;
    pass(slot, kNobody, false);
    back.push_back(slot);
  }
  return back;
}

Slots LeaseBook::stand(Holder holder, std::uint64_t version) {
  const auto found = accounts_.find(holder);
  if (found == accounts_.end()) return {};
  Account& account = found->second;
  if (!account.lease.hold || !account.parks || version != account.lease.version) return {};
  const Slots still = choose_owned(holder, [](const Place& place) { return place.leased; });
  for (const Slot slot : still) {
    pass(slot, kNobody, false);
    if (contains(account.held, slot)) stay(account, slot);
  }
  return still;
}

Slots LeaseBook::vacate(Holder holder) {
  Slots owned_before = owned(holder);
  const auto found = accounts_.find(holder);
  if (found == accounts_.end()) return owned_before;
  Account& account = found->second;
  for (const Slot slot : planned(holder)) set_planned(slot, kNobody);
  for (const Slot slot : owned_before) pass(slot, kNobody, false);
  account.held.clear();
  keep_parked(account, {});
  account.parks = false;
  if (!account.lease.slots.empty()) account.lease = {account.lease.version + (owned_before.empty() ? 0 : 1), {}};
  account.changed = false;
  return owned_before;
}

Slots LeaseBook::forget(Holder holder) {
  Slots owned_before = vacate(holder);
  accounts_.erase(holder);
  return owned_before;
}

void LeaseBook::recall_lease(Holder holder, const Lease& lease, double now_s) {
  Account& account = accounts_[holder];
  account.lease = {std::max(account.lease.version, lease.version), {}, lease.hold};
  account.parks = lease.hold;
  account.parks_s = now_s;
  for (const Slot slot : owned(holder)) {
    Place& place = *find(slot);
    if (!place.leased || contains(lease.slots, slot)) continue;
    place.leased = false;
    place.recalled_s = now_s;
    place.recall_version = lease.version;
    if (place.planned == holder) set_planned(slot, kNobody);
  }
  for (const Slot slot : lease.slots) {
    if (find(slot) == nullptr) continue;
    pass(slot, holder, true);
    set_planned(slot, holder);
    wake(account, slot);
    account.lease.slots.push_back(slot);
  }
}

void LeaseBook::recall_return(Holder holder, const Slots& slots) {
  for (const Slot slot : slots) {
    const Place* const place = find(slot);
    if (place == nullptr || place->owner != holder) continue;
    if (place->planned == holder) set_planned(slot, kNobody);
    pass(slot, kNobody, false);
  }
  Lease& lease = accounts_[holder].lease;
  const std::size_t leased = std::erase_if(lease.slots, [&](Slot slot) { return contains(slots, slot); });
  if (leased > 0) ++lease.version;  // as vacate() has done
}

void LeaseBook::recall_stand(Holder holder, const Slots& slots) {
  Account& account = accounts_[holder];
  for (const Slot slot : slots) {
    const Place* const place = find(slot);
    if (place == nullptr || place->owner != holder) continue;
    if (place->planned == holder) set_planned(slot, kNobody);
    pass(slot, kNobody, false);
    stay(account, slot);
  }
}

void LeaseBook::recall_join(Holder holder, const Heard& heard, double now_s) {
  Account& account = accounts_[holder];
  account.lease.version = std::max(account.lease.version, heard.version);
  keep_parked(account, heard.holds);
  for (const Slot slot : heard.holds) {
    if (find(slot) == nullptr || account.parked.contains(slot)) continue;
    claim(holder, slot, now_s);
    find(slot)->heard = false;
  }
}

const Lease& LeaseBook::lease(Holder holder) const {
  static const Lease none;
  const auto found = accounts_.find(holder);
  return found == accounts_.end() ? none : found->second.lease;
}

std::uint64_t LeaseBook::seen(Holder holder) const {
  const auto found = accounts_.find(holder);
  return found == accounts_.end() ? 0 : found->second.seen;
}

const Slots& LeaseBook::held(Holder holder) const {
  static const Slots none;
  const auto found = accounts_.find(holder);
  return found == accounts_.end() ? none : found->second.held;
}

Slots LeaseBook::planned(Holder holder) const {
  const auto found = accounts_.find(holder);
  return found == accounts_.end() ? Slots() : Slots(found->second.planned.begin(), found->second.planned.end());
}

Slots LeaseBook::owned(Holder holder) const {
  return choose_owned(holder, [](const Place&) { return true; });
}

std::size_t LeaseBook::in_use(Holder holder) const {
  const auto found = accounts_.find(holder);
  if (found == accounts_.end()) return 0;
  const auto& owned = found->second.owned;
  return static_cast<std::size_t>(
      std::count_if(owned.begin(), owned.end(), [&](Slot slot) { return find(slot)->leased; }));
}

Slots LeaseBook::parked(Holder holder) const {
  const auto found = accounts_.find(holder);
  return found == accounts_.end() ? Slots() : Slots(found->second.parked.begin(), found->second.parked.end());
}

std::uint32_t LeaseBook::parked_on(Slot slot) const {
  const Place* const place = find(slot);
  return place == nullptr ? 0 : place->parked;
}

bool LeaseBook::is_late(const Account& account, const Place& place, double before_s) const {
  return place.leased ? account.lease.hold && account.parks && account.parks_s <= before_s
                      : place.recalled_s <= before_s;
}

Slots LeaseBook::overdue(Holder holder, double before_s) const {
  const auto found = accounts_.find(holder);
  if (found == accounts_.end()) return {};
  return choose_owned(holder, [&](const Place& place) { return is_late(found->second, place, before_s); });
}

double LeaseBook::recalled_since(Holder holder) const {
  double since_s = std::numeric_limits<double>::infinity();
  const auto found = accounts_.find(holder);
  if (found == accounts_.end()) return since_s;
  for (const Slot slot : found->second.owned) {
    const Place& place = *find(slot);
    if (!place.leased) since_s = std::min(since_s, place.recalled_s);
    if (is_late(found->second, place, since_s) && place.leased) since_s = found->second.parks_s;
  }
  return since_s;
}

Holder LeaseBook::owner(Slot slot) const {
  const Place* const place = find(slot);
  return place == nullptr ? kNobody : place->owner;
}

std::uint32_t LeaseBook::slots_of(std::uint32_t host) const {
  return host < slots_.size() ? slots_[host] : 0;
}

std::vector<std::string> LeaseBook::broken_rules() const {
  std::vector<std::string> broken;
  std::map<Slot, Holder> leased;
  for (const auto& [holder, account] : accounts_) {
    const bool is_away = account.lease.hold && in_use(holder) == 0;
    for (const Slot slot : is_away ? Slots() : account.lease.slots) {
      const auto [other, first] = leased.emplace(slot, holder);
      if (!first) {
        broken.push_back("slot " + text_of(slot) + " is leased to " + std::to_string(other->second) + " and " +
                         std::to_string(holder));
      }
      if (owner(slot) != holder && !account.changed) {
        broken.push_back("slot " + text_of(slot) + " is leased to " + std::to_string(holder) + " and belongs to " +
                         std::to_string(owner(slot)));
      }
    }
    for (const Slot slot : account.held) {
      if (owner(slot) == holder || account.parked.contains(slot)) continue;
      broken.push_back("slot " + text_of(slot) + " is held by " + std::to_string(holder) + " and belongs to " +
                       std::to_string(owner(slot)));
    }
  }
  return broken;
}

}  // namespace elastictrain::heuristics::leases
