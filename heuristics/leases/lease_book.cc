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
    if (choose(*find(slot)->of(holder))) chosen.push_back(slot);
  }
  return chosen;
}

void LeaseBook::set_unplanned(Slot slot, Holder holder) {
  Place& place = *find(slot);
  if (place.planned == holder) place.planned = kNobody;
  if (place.planned_guest == holder) place.planned_guest = kNobody;
  if (const auto found = accounts_.find(holder); found != accounts_.end()) found->second.planned.erase(slot);
}

void LeaseBook::set_planned(Slot slot, Holder holder, bool guest) {
  Place& place = *find(slot);
  Holder& planned = guest ? place.planned_guest : place.planned;
  if (planned == holder) return;
  if (planned != kNobody) set_unplanned(slot, Holder(planned));
  accounts_[holder].planned.insert(slot);
  planned = holder;
}

// A slot is free, or its only tenant is the other one of the holder's pair.
bool LeaseBook::can_enter(const Place& place, Holder holder) const {
  if (place.first.holder == kNobody) return true;
  const auto found = accounts_.find(holder);
  return place.second.holder == kNobody && found != accounts_.end() && found->second.pair == place.first.holder;
}

void LeaseBook::mark_changed(const Place& place) {
  for (const Tenant* tenant : {&place.first, &place.second}) {
    if (tenant->holder != kNobody) accounts_[tenant->holder].neighbour_changed = true;
  }
}

LeaseBook::Tenant& LeaseBook::enter(Slot slot, Holder holder) {
  Place& place = *find(slot);
  const bool alone = place.first.holder == kNobody;
  Tenant& tenant = alone ? place.first : place.second;
  tenant = {.holder = holder};
  Account& account = accounts_[holder];
  account.owned.insert(slot);
  if (alone) return tenant;
  place.packed = account.pair == place.first.holder;
  mark_changed(place);
  return tenant;
}

void LeaseBook::leave(Slot slot, Holder holder) {
  Place& place = *find(slot);
  if (place.of(holder) == nullptr) return;
  accounts_[holder].owned.erase(slot);
  if (place.first.holder == holder) place.first = place.second;
  place.second = {};
  place.packed = false;
  mark_changed(place);
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
  for (std::uint32_t number = slots; number < places_[host].size(); ++number) {
    const Place place = places_[host][number];
    for (const Holder holder : {place.planned, place.planned_guest}) set_unplanned({host, number}, holder);
  }
}

void LeaseBook::set_pairs(const std::vector<std::pair<Holder, Slots>>& plan, const std::vector<Pair>& pairs) {
  std::map<Holder, Holder> host_of;
  for (const Pair& pair : pairs) host_of[pair.guest] = pair.host;
  for (const auto& [holder, slots] : plan) {
    const auto found = accounts_.find(holder);
    if (found == accounts_.end()) continue;
    Account& account = found->second;
    const bool guest = host_of.contains(holder);
    const std::set<Slot> before = account.planned;
    for (const Slot slot : before) {
      if (guest != account.guest || !contains(slots, slot)) set_unplanned(slot, holder);
    }
    account.pair = kNobody;
    account.guest = guest;
  }
  for (const auto& [guest, host] : host_of) {
    accounts_[guest].pair = host;
    accounts_[guest].guest = true;
    accounts_[host].pair = guest;
  }
}

void LeaseBook::plan(const std::vector<std::pair<Holder, Slots>>& plan, const std::vector<Pair>& pairs) {
  set_pairs(plan, pairs);
  for (const auto& [holder, slots] : plan) {
    const auto found = accounts_.find(holder);
    if (found != accounts_.end()) found->second.parks = found->second.moves = false;
    const bool guest = found != accounts_.end() && found->second.guest;
    for (const Slot slot : slots) {
      if (exists(slot)) set_planned(slot, holder, guest);
    }
  }
}

void LeaseBook::park(Holder holder) {
  accounts_[holder].parks = true;
}

void LeaseBook::move(Holder holder) {
  accounts_[holder].moves = true;
}

void LeaseBook::take_out(Tenant& tenant, double now_s) {
  Account& account = accounts_[tenant.holder];
  tenant.leased = false;
  tenant.moving = account.moves;
  tenant.recalled_s = now_s;
  tenant.recall_version = account.lease.version + 1;
  account.changed = true;
}

// Processes that stand still on some of its slots would not know what to do on a part of them.
bool LeaseBook::may_go_on(Holder holder) const {
  const Account& account = accounts_.at(holder);
  if (account.parked.empty()) return true;
  return std::all_of(account.planned.begin(), account.planned.end(), [&](Slot slot) {
    const Place& place = *find(slot);
    return place.of(holder) != nullptr || can_enter(place, holder);
  });
}

void LeaseBook::settle_tenant(Place& place, Tenant& tenant, double now_s) {
  if (tenant.holder == kNobody) return;
  const Account& account = accounts_[tenant.holder];
  const bool ends_move = !tenant.leased && tenant.moving && !account.moves;
  const bool is_recalled = tenant.leased && !place.is_planned_for(tenant.holder) && !account.parks;
  if (ends_move || is_recalled) take_out(tenant, now_s);
}

void LeaseBook::settle_planned(Slot slot, Holder holder, const std::set<Holder>& waiting) {
  Place& place = *find(slot);
  Tenant* tenant = holder == kNobody ? nullptr : place.of(holder);
  const bool has_it = tenant != nullptr && tenant->leased;
  if (holder == kNobody || has_it || waiting.contains(holder)) return;
  if (tenant == nullptr && !can_enter(place, holder)) return;
  if (tenant == nullptr) tenant = &enter(slot, holder);
  *tenant = {.holder = holder, .leased = true, .heard = true};
  wake(accounts_[holder], slot);
  accounts_[holder].changed = true;
}

std::vector<Holder> LeaseBook::settle(double now_s) {
  std::set<Holder> waiting;
  for (const auto& [holder, account] : accounts_) {
    if (!may_go_on(holder)) waiting.insert(holder);
  }
  each_place([&](Slot slot, Place& place) {
    settle_tenant(place, place.first, now_s);
    settle_tenant(place, place.second, now_s);
    settle_planned(slot, place.planned, waiting);
    settle_planned(slot, place.planned_guest, waiting);
  });
  std::vector<Holder> changed;
  for (auto& [holder, account] : accounts_) {
    if (make_lease(holder, account, now_s)) changed.push_back(holder);
  }
  return changed;
}

Holder LeaseBook::beside(Holder holder, const Slots& leased) const {
  for (const Slot slot : leased) {
    if (const Holder other = other_owner(holder, slot); other != kNobody) return other;
  }
  return kNobody;
}

// A slot that is recalled as usual comes back first, so then nothing is exchanged.
bool LeaseBook::is_exchange(Holder holder) const {
  const Slots recalled = choose_owned(holder, [](const Tenant& own) { return !own.leased; });
  const Slots moving = choose_owned(holder, [](const Tenant& own) { return !own.leased && own.moving; });
  return !recalled.empty() && moving.size() == recalled.size();
}

bool LeaseBook::make_lease(Holder holder, Account& account, double now_s) {
  const bool had_hold = account.lease.hold;
  if (!account.changed && !account.neighbour_changed && !had_hold && !account.parks) return false;
  Slots leased = choose_owned(holder, [](const Tenant& tenant) { return tenant.leased; });
  const Holder other = beside(holder, leased);
  const bool holds = account.stands(!leased.empty()) && !(leased.empty() && account.parked.empty());
  const bool is_away = holds && leased.empty();                   // what it was told counts on
  const bool same_pair = holds || other == account.lease.beside;  // who stands still need not know
  const bool differs = account.changed || holds != had_hold || !same_pair;
  account.changed = account.neighbour_changed = false;
  if (is_away || !differs) return false;
  if (holds && !had_hold) account.parks_s = now_s;
  account.lease = {account.lease.version + 1, std::move(leased), holds, holds ? account.lease.beside : other,
                   is_exchange(holder)};
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
    if (place->of(holder) != nullptr || contains(still, slot)) continue;
    const bool free = place->first.holder == kNobody && claims != Claims::kOwn;
    const bool any_heard = place->first.heard || place->second.heard;
    const bool unheard = place->first.holder != kNobody && !any_heard && claims == Claims::kAny;
    if (!free && !unheard) return "slot " + text_of(slot) + " was not leased to it, or it was given back";
  }
  return "";
}

LeaseBook::Tenant& LeaseBook::claim(Holder holder, Slot slot, double now_s) {
  Place& place = *find(slot);
  if (Tenant* const own = place.of(holder)) {
    own->heard = true;
    return *own;
  }
  while (place.first.holder != kNobody) {
    const Tenant before = place.first;
    if (before.leased) accounts_[before.holder].changed = true;
    set_unplanned(slot, before.holder);
    leave(slot, before.holder);
  }
  Tenant& tenant = enter(slot, holder);
  tenant.heard = true;
  tenant.recalled_s = now_s;
  tenant.recall_version = accounts_[holder].lease.version;
  return tenant;
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
      choose_owned(holder, [&](const Tenant& own) { return !own.leased && heard.version >= own.recall_version; });
  Slots back;
  for (const Slot slot : returned) {
    if (contains(heard.holds, slot)) continue;
    leave(slot, holder);
    back.push_back(slot);
  }
  return back;
}

Slots LeaseBook::stand(Holder holder, std::uint64_t version) {
  const auto found = accounts_.find(holder);
  if (found == accounts_.end()) return {};
  Account& account = found->second;
  if (!account.lease.hold || !account.parks || version != account.lease.version) return {};
  const Slots still = choose_owned(holder, [](const Tenant& own) { return own.leased; });
  for (const Slot slot : still) {
    leave(slot, holder);
    if (contains(account.held, slot)) stay(account, slot);
  }
  return still;
}

Slots LeaseBook::vacate(Holder holder) {
  Slots owned_before = owned(holder);
  const auto found = accounts_.find(holder);
  if (found == accounts_.end()) return owned_before;
  Account& account = found->second;
  for (const Slot slot : planned(holder)) set_unplanned(slot, holder);
  for (const Slot slot : owned_before) leave(slot, holder);
  account.held.clear();
  keep_parked(account, {});
  account.parks = account.moves = false;
  if (!account.lease.slots.empty()) account.lease = {account.lease.version + (owned_before.empty() ? 0 : 1), {}};
  account.changed = account.neighbour_changed = false;
  return owned_before;
}

Slots LeaseBook::forget(Holder holder) {
  Slots owned_before = vacate(holder);
  accounts_.erase(holder);
  return owned_before;
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
  return choose_owned(holder, [](const Tenant&) { return true; });
}

std::size_t LeaseBook::in_use(Holder holder) const {
  const auto found = accounts_.find(holder);
  if (found == accounts_.end()) return 0;
  const auto& owned = found->second.owned;
  return static_cast<std::size_t>(
      std::count_if(owned.begin(), owned.end(), [&](Slot slot) { return find(slot)->of(holder)->leased; }));
}

Slots LeaseBook::parked(Holder holder) const {
  const auto found = accounts_.find(holder);
  return found == accounts_.end() ? Slots() : Slots(found->second.parked.begin(), found->second.parked.end());
}

std::uint32_t LeaseBook::parked_on(Slot slot) const {
  const Place* const place = find(slot);
  return place == nullptr ? 0 : place->parked;
}

bool LeaseBook::is_late(const Account& account, const Tenant& tenant, double before_s) const {
  return tenant.leased ? account.lease.hold && account.parks && account.parks_s <= before_s
                       : tenant.recalled_s <= before_s && !tenant.moving;
}

Slots LeaseBook::overdue(Holder holder, double before_s) const {
  const auto found = accounts_.find(holder);
  if (found == accounts_.end()) return {};
  return choose_owned(holder, [&](const Tenant& own) { return is_late(found->second, own, before_s); });
}

double LeaseBook::recalled_since(Holder holder) const {
  double since_s = std::numeric_limits<double>::infinity();
  const auto found = accounts_.find(holder);
  if (found == accounts_.end()) return since_s;
  for (const Slot slot : found->second.owned) {
    const Tenant& own = *find(slot)->of(holder);
    if (!own.leased && !own.moving) since_s = std::min(since_s, own.recalled_s);
    if (is_late(found->second, own, since_s) && own.leased) since_s = found->second.parks_s;
  }
  return since_s;
}

Holder LeaseBook::owner(Slot slot) const {
  const Place* const place = find(slot);
  return place == nullptr ? kNobody : place->first.holder;
}

bool LeaseBook::owns(Holder holder, Slot slot) const {
  const Place* const place = find(slot);
  return place != nullptr && holder != kNobody && place->of(holder) != nullptr;
}

Holder LeaseBook::other_owner(Holder holder, Slot slot) const {
  if (!owns(holder, slot)) return kNobody;
  const Place& place = *find(slot);
  return place.first.holder == holder ? place.second.holder : place.first.holder;
}

std::uint32_t LeaseBook::slots_of(std::uint32_t host) const {
  return host < slots_.size() ? slots_[host] : 0;
}

void LeaseBook::find_broken(Holder holder, const Account& account, std::vector<std::string>& broken) const {
  const bool is_away = account.lease.hold && in_use(holder) == 0;
  for (const Slot slot : is_away ? Slots() : account.lease.slots) {
    if (owns(holder, slot) || account.changed) continue;
    broken.push_back("slot " + text_of(slot) + " is leased to " + std::to_string(holder) + " and belongs to " +
                     std::to_string(owner(slot)));
  }
  for (const Slot slot : account.held) {
    if (owns(holder, slot) || account.parked.contains(slot)) continue;
    broken.push_back("slot " + text_of(slot) + " is held by " + std::to_string(holder) + " and belongs to " +
                     std::to_string(owner(slot)));
  }
}

std::vector<std::string> LeaseBook::broken_rules() const {
  std::vector<std::string> broken;
  for (const auto& [holder, account] : accounts_) find_broken(holder, account, broken);
  for (std::uint32_t host = 0; host < places_.size(); ++host) {
    for (std::uint32_t number = 0; number < places_[host].size(); ++number) {
      const Place& place = places_[host][number];
      if (place.second.holder == kNobody || place.packed) continue;
      broken.push_back("slot " + text_of({host, number}) + " belongs to " + std::to_string(place.first.holder) +
                       " and " + std::to_string(place.second.holder) + ", which were not packed");
    }
  }
  return broken;
}

}  // namespace elastictrain::heuristics::leases
