// Purpose: records the holder that may use each slot of each host, and passes slots from one holder to the next.
//
// A slot belongs to one holder from the moment in which it is leased until it is given back. Somebody else may be meant
// to have it next (it is planned for that one), but gets it only then. A slot is given back when its holder has said,
// knowing a lease without it, that none of its processes is there. A lease is the whole set of slots that a holder may
// use; each change of it has a new version, and versions of a holder only rise.
//
// Two holders may be packed: a plan names them as a pair, and means the same slots for both. Only then may both work on
// a slot at once, and never three. A pair that is planned no longer stays on a slot until one of the two has given it
// back; the book knows that it was packed (broken_rules()). A lease names the other one of the pair while both have its
// slots.
//
// A holder may be told to exchange slots (move()): its lease then says that what it no longer names is exchanged for
// what it names newly. The holder keeps the old ones until its workers on the new ones have taken over, so these are
// not late.
//
// A holder may be told to stand still (park()): its lease says so, and names the same slots. Once it has said that it
// does, its slots pass on while its processes stay, with their state in memory. It goes on when all slots that are
// planned for it are free, not with a part of them.
//
// Pure, deterministic, no clock: times are seconds since any common instant. Ownership: values. Cost: plan() and
// settle() are O(slots), what is asked of one holder O(its slots). Errors: check() says what is wrong with what a
// holder says; hear() is for what passed it.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace elastictrain::heuristics::leases {

using Holder = std::uint64_t;
inline constexpr Holder kNobody = 0;

struct Slot {
  std::uint32_t host = 0;    // its number in the caller's list of hosts
  std::uint32_t number = 0;  // 0 to the host's slots - 1
  auto operator<=>(const Slot&) const = default;
};
using Slots = std::vector<Slot>;  // ascending, each once

struct Lease {
  std::uint64_t version = 0;
  Slots slots;
  bool hold = false;        // stand still there
  Holder beside = kNobody;  // works on slots of this lease, too
  bool moves = false;       // all slots that it has to give back are exchanged for others
};

// A guest shares the slots of its host: both are planned for the same ones.
struct Pair {
  Holder host = kNobody;
  Holder guest = kNobody;
};

// What a holder says of itself.
struct Heard {
  std::uint64_t version = 0;  // of the newest lease that it has seen
  Slots holds;                // where a process of it is or may be
};

enum class Claims : std::uint8_t {
  kOwn,   // only slots that belong to it
  kFree,  // also slots that belong to nobody: it says more than is recorded
  kAny,   // also slots whose recorded holder has not said yet that it uses them: the record may be older than the truth
};

class LeaseBook {
 public:
  // Makes a host known, or changes its number of slots. Slots beyond it pass on to nobody.
  void set_host(std::uint32_t host, std::uint32_t slots);

  // What should be once everything has been given back. A slot is planned for one holder, and for its guest; other
  // slots of these holders are for nobody. A holder is in one pair at most.
  void plan(const std::vector<std::pair<Holder, Slots>>& plan, const std::vector<Pair>& pairs = {});
  // After plan(), for a holder for which nothing is planned: instead of losing its slots it stands still on them.
  void park(Holder holder);
  // After plan(), for a holder for which other slots are planned than it has: it exchanges them. The next plan()
  // without it ends that: what has not been given back is then recalled as usual.
  void move(Holder holder);
  // Carries out what can be carried out now. Returns the holders whose lease has changed, ascending.
  std::vector<Holder> settle(double now_s);

  // Empty if hear() may be called, else what is wrong; names slots as "host:number".
  std::string check(Holder holder, const Heard& heard, Claims claims) const;
  // Returns the slots that were given back.
  Slots hear(Holder holder, const Heard& heard, double now_s);
  // It has said that it stands still, knowing this version of its lease. Returns the slots that pass on.
  Slots stand(Holder holder, std::uint64_t version);
  // It has no process any more, but may be given slots again: its versions go on. Returns the slots that were its own.
  Slots vacate(Holder holder);
  // It has ended. Returns the slots that were its own.
  Slots forget(Holder holder);

  // Of a record: this lease was written down, these slots were given back, this is what a run said as it joined.
  void recall_lease(Holder holder, const Lease& lease, double now_s);
  void recall_return(Holder holder, const Slots& slots);
  void recall_stand(Holder holder, const Slots& slots);
  void recall_join(Holder holder, const Heard& heard, double now_s);

  const Lease& lease(Holder holder) const;
  std::uint64_t seen(Holder holder) const;
  Slots planned(Holder holder) const;
  // Slots that belong to it, leased or not.
  Slots owned(Holder holder) const;
  // What it said last.
  const Slots& held(Holder holder) const;
  // Slots that it may use now: not those on which it stands still.
  std::size_t in_use(Holder holder) const;
  // Slots on which its processes stand still, while others may use them.
  Slots parked(Holder holder) const;
  // Holders whose processes stand still on a slot.
  std::uint32_t parked_on(Slot slot) const;
  // Slots that it was to give up at `before_s` or earlier and has not.
  Slots overdue(Holder holder, double before_s) const;
  // When the first slot was recalled that is not back; infinite: none.
  double recalled_since(Holder holder) const;

  // The first one of its holders.
  Holder owner(Slot slot) const;
  bool owns(Holder holder, Slot slot) const;
  // The other one of two holders.
  Holder other_owner(Holder holder, Slot slot) const;
  std::uint32_t hosts() const { return static_cast<std::uint32_t>(places_.size()); }
  std::uint32_t slots_of(std::uint32_t host) const;

  // A sentence for each rule of this header that does not hold. Empty: all do.
  std::vector<std::string> broken_rules() const;

 private:
  struct Tenant {
    Holder holder = kNobody;
    bool leased = false;    // in its lease
    bool heard = false;     // it has said that it holds it, or the lease was made here
    double recalled_s = 0;  // since when it is its own but not leased
    std::uint64_t recall_version = 0;
    bool moving = false;  // ... and exchanged for another
  };
  struct Place {
    Tenant first, second;  // the second one only beside a first
    Holder planned = kNobody;
    Holder planned_guest = kNobody;
    bool packed = false;       // its two tenants were planned as a pair
    std::uint32_t parked = 0;  // holders that stand still on it

    Tenant* of(Holder holder) { return first.holder == holder ? &first : second.holder == holder ? &second : nullptr; }
    const Tenant* of(Holder holder) const { return const_cast<Place*>(this)->of(holder); }
    bool is_planned_for(Holder holder) const { return planned == holder || planned_guest == holder; }
  };
  struct Account {
    Lease lease;
    std::uint64_t seen = 0;
    Slots held;
    std::set<Slot> owned;
    std::set<Slot> planned;
    std::set<Slot> parked;
    Holder pair = kNobody;  // the other one, as planned
    bool guest = false;     // of the pair
    bool parks = false;     // it is to stand still
    double parks_s = 0;     // since when its lease says so
    bool moves = false;     // it exchanges slots
    bool changed = false;
    bool neighbour_changed = false;
    bool stands(bool has_leased) const { return parks || (!parked.empty() && !has_leased); }
  };

  Place* find(Slot slot);
  const Place* find(Slot slot) const;
  bool exists(Slot slot) const;
  template <class Use>
  void each_place(Use use);
  template <class Choose>
  Slots choose_owned(Holder holder, Choose choose) const;
  void set_planned(Slot slot, Holder holder, bool guest);
  void set_unplanned(Slot slot, Holder holder);
  void set_pairs(const std::vector<std::pair<Holder, Slots>>& plan, const std::vector<Pair>& pairs);
  bool can_enter(const Place& place, Holder holder) const;
  Tenant& enter(Slot slot, Holder holder);
  void leave(Slot slot, Holder holder);
  void mark_changed(const Place& place);
  void settle_tenant(Place& place, Tenant& tenant, double now_s);
  void settle_planned(Slot slot, Holder holder, const std::set<Holder>& waiting);
  void take_out(Tenant& tenant, double now_s);
  Tenant& claim(Holder holder, Slot slot, double now_s);
  void recall_tenant(Holder holder, Slot slot, Holder beside);
  void stay(Account& account, Slot slot);
  void wake(Account& account, Slot slot);
  void keep_parked(Account& account, const Slots& holds);
  bool may_go_on(Holder holder) const;
  Holder beside(Holder holder, const Slots& leased) const;
  bool is_exchange(Holder holder) const;
  bool make_lease(Holder holder, Account& account, double now_s);
  bool is_late(const Account& account, const Tenant& tenant, double before_s) const;
  void find_broken(Holder holder, const Account& account, std::vector<std::string>& broken) const;

  std::vector<std::vector<Place>> places_;  // by host and number; never shorter than any slot that belongs to somebody
  std::vector<std::uint32_t> slots_;        // by host
  std::map<Holder, Account> accounts_;
};

}  // namespace elastictrain::heuristics::leases
