// What a record says of leases that were made before.
#include <algorithm>

#include "heuristics/leases/lease_book.h"

namespace elastictrain::heuristics::leases {
namespace {

bool is_among(const Slots& slots, Slot slot) {
  return std::binary_search(slots.begin(), slots.end(), slot);
}

}  // namespace

// The other one of a pair stays; anybody else has given back the slot by then, or was wrong. Where the record does not
// say that it gave it back, it gets another lease.
void LeaseBook::recall_tenant(Holder holder, Slot slot, Holder beside) {
  Place& place = *find(slot);
  Tenant* tenant = place.of(holder);
  const bool shares = beside != kNobody && place.first.holder == beside && place.second.holder == kNobody;
  if (tenant == nullptr) {
    while (!shares && place.first.holder != kNobody) {
      const Tenant before = place.first;
      if (before.leased) accounts_[before.holder].changed = true;
      set_unplanned(slot, before.holder);
      leave(slot, before.holder);
    }
    tenant = &enter(slot, holder);
    place.packed = shares;
  }
  *tenant = {.holder = holder, .leased = true};
  Account& account = accounts_[holder];
  account.guest = beside != kNobody && place.planned == beside;
  set_planned(slot, holder, account.guest);
}

void LeaseBook::recall_lease(Holder holder, const Lease& lease, double now_s) {
  Account& account = accounts_[holder];
  account.lease = {std::max(account.lease.version, lease.version), {}, lease.hold, lease.beside, lease.moves};
  account.parks = lease.hold;
  account.moves = lease.moves;
  account.parks_s = now_s;
  account.changed = account.neighbour_changed = false;
  for (const Slot slot : owned(holder)) {
    Tenant& own = *find(slot)->of(holder);
    if (is_among(lease.slots, slot) || (!own.leased && own.moving == lease.moves)) continue;
    own.leased = false;
    own.moving = lease.moves;
    own.recalled_s = now_s;
    own.recall_version = lease.version;
    set_unplanned(slot, holder);
  }
  for (const Slot slot : lease.slots) {
    if (find(slot) == nullptr) continue;
    recall_tenant(holder, slot, lease.beside);
    wake(account, slot);
    account.lease.slots.push_back(slot);
  }
}

void LeaseBook::recall_return(Holder holder, const Slots& slots) {
  for (const Slot slot : slots) {
    if (!owns(holder, slot)) continue;
    set_unplanned(slot, holder);
    leave(slot, holder);
  }
  Lease& lease = accounts_[holder].lease;
  const std::size_t leased = std::erase_if(lease.slots, [&](Slot slot) { return is_among(slots, slot); });
  if (leased > 0) ++lease.version;  // as vacate() has done
}

void LeaseBook::recall_stand(Holder holder, const Slots& slots) {
  Account& account = accounts_[holder];
  for (const Slot slot : slots) {
    if (!owns(holder, slot)) continue;
    set_unplanned(slot, holder);
    leave(slot, holder);
    stay(account, slot);
  }
}

void LeaseBook::recall_join(Holder holder, const Heard& heard, double now_s) {
  Account& account = accounts_[holder];
  account.lease.version = std::max(account.lease.version, heard.version);
  keep_parked(account, heard.holds);
  for (const Slot slot : heard.holds) {
    if (find(slot) == nullptr || account.parked.contains(slot)) continue;
    claim(holder, slot, now_s).heard = false;
  }
}

}  // namespace elastictrain::heuristics::leases
