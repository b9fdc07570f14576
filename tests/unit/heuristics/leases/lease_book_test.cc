#include "heuristics/leases/lease_book.h"

#include <doctest/doctest.h>

namespace elastictrain::heuristics::leases {
namespace {

LeaseBook two_hosts() {
  LeaseBook book;
  book.set_host(0, 2);
  book.set_host(1, 2);
  return book;
}

Slots slots(std::initializer_list<Slot> list) {
  return list;
}

TEST_CASE("a slot passes on when its holder, knowing the new lease, has no process there") {
  LeaseBook book = two_hosts();
  book.plan({{1, slots({{0, 0}, {0, 1}})}});
  CHECK(book.settle(0) == std::vector<Holder>{1});
  CHECK(book.lease(1).version == 1);
  CHECK(book.hear(1, {1, slots({{0, 0}, {0, 1}})}, 1).empty());

  book.plan({{1, slots({{0, 0}})}, {2, slots({{0, 1}})}});
  CHECK(book.settle(2) == std::vector<Holder>{1});
  CHECK(book.lease(1).slots == slots({{0, 0}}));
  CHECK(book.lease(2).slots.empty());
  // It has not seen the new lease yet: it may start a process there again.
  CHECK(book.hear(1, {1, slots({{0, 0}})}, 3).empty());
  CHECK(book.hear(1, {2, slots({{0, 0}, {0, 1}})}, 4).empty());
  CHECK(book.overdue(1, 2) == slots({{0, 1}}));
  CHECK(book.settle(4).empty());
  CHECK(book.hear(1, {2, slots({{0, 0}})}, 5) == slots({{0, 1}}));
  CHECK(book.settle(5) == std::vector<Holder>{2});
  CHECK(book.lease(2).slots == slots({{0, 1}}));
  CHECK(book.broken_rules().empty());
}

TEST_CASE("a slot that is wanted back before it was given back stays") {
  LeaseBook book = two_hosts();
  book.plan({{1, slots({{0, 0}, {0, 1}})}});
  book.settle(0);
  book.plan({{1, slots({{0, 0}})}, {2, slots({{0, 1}})}});
  book.settle(1);
  book.plan({{1, slots({{0, 0}, {0, 1}})}, {2, {}}});
  CHECK(book.settle(2) == std::vector<Holder>{1});
  CHECK(book.lease(1).version == 3);
  CHECK(book.lease(1).slots.size() == 2);
  CHECK(book.lease(2).version == 0);
}

TEST_CASE("what a run says that it holds counts as far as nobody else is known to be there") {
  LeaseBook book = two_hosts();
  CHECK(book.check(1, {0, slots({{7, 0}})}, Claims::kAny) == "there is no slot 7:0");
  CHECK(book.check(1, {0, slots({{0, 0}})}, Claims::kOwn) != "");
  CHECK(book.check(1, {0, slots({{0, 0}})}, Claims::kFree) == "");
  CHECK(book.check(1, {4, {}}, Claims::kOwn) == "it follows version 4 of its lease; the newest is 0");

  book.recall_lease(1, {3, slots({{0, 0}, {0, 1}})}, 0);
  CHECK(book.check(2, {0, slots({{0, 0}})}, Claims::kFree) != "");
  CHECK(book.check(2, {0, slots({{0, 0}})}, Claims::kAny) == "");
  book.hear(2, {5, slots({{0, 0}})}, 1);
  CHECK(book.owner({0, 0}) == 2);
  CHECK(book.check(1, {3, slots({{0, 0}})}, Claims::kAny) != "");
  CHECK(book.settle(2) == std::vector<Holder>{1});
  CHECK(book.lease(1).version == 4);
  CHECK(book.lease(1).slots == slots({{0, 1}}));
  CHECK(book.lease(2).version == 5);
  CHECK(book.broken_rules().empty());
}

TEST_CASE("versions go on when a run leaves and comes back") {
  LeaseBook book = two_hosts();
  book.plan({{1, slots({{0, 0}})}});
  book.settle(0);
  CHECK(book.vacate(1) == slots({{0, 0}}));
  CHECK(book.lease(1).version == 2);
  book.plan({{1, slots({{1, 0}})}});
  book.settle(1);
  CHECK(book.lease(1).version == 3);
  CHECK(book.forget(1) == slots({{1, 0}}));
  CHECK(book.owner({1, 0}) == kNobody);
}

TEST_CASE("a host that goes away takes its slots out of leases, and a slot of it passes to nobody") {
  LeaseBook book = two_hosts();
  book.plan({{1, slots({{0, 1}, {1, 0}})}});
  book.settle(0);
  book.set_host(1, 0);
  CHECK(book.settle(1) == std::vector<Holder>{1});
  CHECK(book.lease(1).slots == slots({{0, 1}}));
  book.plan({{2, slots({{1, 0}})}});
  CHECK(book.hear(1, {2, slots({{0, 1}})}, 2) == slots({{1, 0}}));
  CHECK(book.settle(2).empty());
}

TEST_CASE("a holder stands still on its slots while they pass on, and goes on when all of them are free") {
  LeaseBook book = two_hosts();
  const Slots two = slots({{0, 0}, {0, 1}});
  book.plan({{1, two}});
  book.settle(0);
  book.hear(1, {1, two}, 1);

  book.plan({{1, {}}, {2, slots({{0, 0}})}, {3, slots({{0, 1}})}});
  book.park(1);
  CHECK(book.settle(2) == std::vector<Holder>{1});
  CHECK(book.lease(1).hold);
  CHECK(book.lease(1).slots == two);
  CHECK(book.stand(1, 1).empty());  // it has not seen this lease
  CHECK(book.overdue(1, 2) == two);
  CHECK(book.recalled_since(1) == 2);
  CHECK(book.hear(1, {2, two}, 3).empty());
  CHECK(book.stand(1, 2) == two);
  CHECK(book.parked(1) == two);
  CHECK(book.in_use(1) == 0);
  CHECK(book.overdue(1, 9).empty());
  CHECK(book.settle(3) == std::vector<Holder>{2, 3});
  CHECK(book.check(1, {2, two}, Claims::kOwn).empty());
  book.hear(1, {2, two}, 4);
  CHECK(book.owner({0, 0}) == 2);
  CHECK(book.broken_rules().empty());

  book.plan({{1, two}, {2, {}}, {3, {}}});
  CHECK(book.settle(5) == std::vector<Holder>{2, 3});
  book.hear(2, {2, {}}, 6);
  CHECK(book.settle(6).empty());  // not with a part of its slots
  CHECK(book.lease(1).hold);
  book.hear(3, {2, {}}, 7);
  CHECK(book.settle(7) == std::vector<Holder>{1});
  CHECK_FALSE(book.lease(1).hold);
  CHECK(book.lease(1).version == 3);
  CHECK(book.parked(1).empty());
  CHECK(book.parked_on({0, 0}) == 0);
  CHECK(book.broken_rules().empty());
}

// Holder 1 has version 1 of its lease, and is told with version 2 to stand still on its slot.
LeaseBook told_to_stand() {
  LeaseBook book = two_hosts();
  book.plan({{1, slots({{0, 0}})}});
  book.settle(0);
  book.hear(1, {1, slots({{0, 0}})}, 1);
  book.plan({{1, {}}});
  book.park(1);
  book.settle(2);
  return book;
}

TEST_CASE("a holder that is wanted again before it stands still keeps its slots") {
  LeaseBook book = told_to_stand();
  book.plan({{1, slots({{0, 0}})}});
  CHECK(book.settle(3) == std::vector<Holder>{1});
  CHECK_FALSE(book.lease(1).hold);
  CHECK(book.stand(1, 2).empty());
  CHECK(book.stand(1, 3).empty());
  CHECK(book.recalled_since(1) > 1e300);
}

TEST_CASE("a holder whose processes were lost while they stood still begins again") {
  LeaseBook book = told_to_stand();
  book.hear(1, {2, slots({{0, 0}})}, 3);
  book.stand(1, 2);
  book.hear(1, {2, {}}, 4);
  CHECK(book.settle(4) == std::vector<Holder>{1});
  CHECK(book.lease(1).slots.empty());
  CHECK_FALSE(book.lease(1).hold);
  book.plan({{1, slots({{1, 1}})}});
  CHECK(book.settle(5) == std::vector<Holder>{1});
  CHECK(book.lease(1).slots == slots({{1, 1}}));
}

TEST_CASE("a journal says again who stands still where") {
  LeaseBook book = two_hosts();
  const Slots one = slots({{0, 0}});
  book.recall_lease(1, {1, one, false}, 0);
  book.recall_lease(1, {2, one, true}, 1);
  book.recall_stand(1, one);
  book.recall_lease(2, {1, one, false}, 2);
  CHECK(book.parked(1) == one);
  CHECK(book.lease(1).hold);
  CHECK(book.in_use(2) == 1);
  CHECK(book.broken_rules().empty());
  CHECK(book.check(1, {2, one}, Claims::kAny).empty());
  book.hear(1, {2, one}, 3);
  CHECK(book.owner({0, 0}) == 2);
  CHECK(book.settle(4).empty());
  CHECK(book.lease(1).slots == one);
}

// 1 works on both slots of host 0, and 2 is packed with it.
LeaseBook packed_pair() {
  LeaseBook book = two_hosts();
  const Slots both = slots({{0, 0}, {0, 1}});
  book.plan({{1, both}});
  book.settle(0);
  book.hear(1, {1, both}, 0);
  book.plan({{1, both}, {2, both}}, {{1, 2}});
  CHECK(book.settle(1) == std::vector<Holder>{1, 2});
  return book;
}

TEST_CASE("two holders work on the same slots where a plan packs them, and know of each other") {
  LeaseBook book = packed_pair();
  CHECK(book.lease(2).slots == slots({{0, 0}, {0, 1}}));
  CHECK(book.lease(2).beside == 1);
  CHECK(book.lease(1).beside == 2);
  CHECK(book.lease(1).version == 2);
  CHECK(book.check(2, {1, slots({{0, 0}, {0, 1}})}, Claims::kOwn).empty());
  CHECK(book.other_owner(1, {0, 1}) == 2);
  CHECK(book.in_use(1) == 2);
  CHECK(book.in_use(2) == 2);
  CHECK(book.settle(2).empty());
  CHECK(book.broken_rules().empty());
}

TEST_CASE("an undone pair: the guest gives back its slots, and nobody enters before") {
  LeaseBook book = packed_pair();
  const Slots both = slots({{0, 0}, {0, 1}});
  book.hear(2, {1, both}, 2);
  book.plan({{1, both}, {2, {}}, {3, both}}, {{1, 3}});
  CHECK(book.settle(3) == std::vector<Holder>{2});
  CHECK(book.lease(3).slots.empty());
  CHECK(book.hear(2, {2, slots({{0, 1}})}, 4) == slots({{0, 0}}));
  CHECK(book.settle(4) == std::vector<Holder>{1, 3});
  CHECK(book.lease(3).slots == slots({{0, 0}}));
  CHECK(book.owns(2, {0, 1}));
  book.hear(2, {2, {}}, 5);
  book.settle(5);
  CHECK(book.lease(3).slots == both);
  CHECK(book.lease(1).beside == 3);
  CHECK(book.lease(2).beside == kNobody);
  CHECK(book.broken_rules().empty());
}

TEST_CASE("a host that ends leaves the slots to its guest") {
  LeaseBook book = packed_pair();
  const Slots both = slots({{0, 0}, {0, 1}});
  book.forget(1);
  CHECK(book.settle(2) == std::vector<Holder>{2});
  CHECK(book.lease(2).slots == both);
  CHECK(book.lease(2).beside == kNobody);
  book.plan({{2, both}});
  CHECK(book.settle(3).empty());
  CHECK(book.owner({0, 1}) == 2);
}

TEST_CASE("a host and its guest stand still, and go on together") {
  LeaseBook book = packed_pair();
  const Slots both = slots({{0, 0}, {0, 1}});
  book.hear(2, {1, both}, 2);
  book.hear(1, {2, both}, 2);
  book.plan({{1, {}}, {2, {}}, {3, both}});
  book.park(1);
  book.park(2);
  CHECK(book.settle(3) == std::vector<Holder>{1, 2});
  CHECK(book.stand(1, book.lease(1).version) == both);
  CHECK(book.settle(4).empty());
  CHECK(book.lease(3).slots.empty());
  CHECK(book.stand(2, book.lease(2).version) == both);
  CHECK(book.settle(5) == std::vector<Holder>{3});
  CHECK(book.parked_on({0, 0}) == 2);
  CHECK(book.broken_rules().empty());
  book.vacate(3);
  book.plan({{1, both}, {2, both}, {3, {}}}, {{1, 2}});
  CHECK(book.settle(6) == std::vector<Holder>{1, 2});
  CHECK(book.lease(1).beside == 2);
  CHECK(book.parked_on({0, 0}) == 0);
  CHECK(book.broken_rules().empty());
}

TEST_CASE("a record of packed leases gives the same book, and one without the pair is a broken rule") {
  const Slots both = slots({{0, 0}, {0, 1}});
  LeaseBook book = two_hosts();
  book.recall_lease(1, {1, both}, 0);
  book.recall_lease(1, {2, both, false, 2}, 0);
  book.recall_lease(2, {1, both, false, 1}, 0);
  CHECK(book.owned(1) == both);
  CHECK(book.owned(2) == both);
  CHECK(book.lease(2).beside == 1);
  CHECK(book.broken_rules().empty());
  book.recall_return(1, both);
  CHECK(book.owner({0, 0}) == 2);

  LeaseBook other = two_hosts();
  other.recall_lease(1, {1, both}, 0);
  other.recall_lease(2, {1, both}, 0);
  CHECK(other.owned(1).empty());
  CHECK(other.owned(2) == both);
}

TEST_CASE("slots that are exchanged stay the holder's own, and are late only once the exchange is over") {
  LeaseBook book = two_hosts();
  const Slots old = slots({{0, 0}}), next = slots({{1, 0}}), both = slots({{0, 0}, {1, 0}});
  book.plan({{1, old}});
  book.settle(0);
  book.hear(1, {1, old}, 0);
  book.plan({{1, next}});
  book.move(1);
  CHECK(book.settle(1) == std::vector<Holder>{1});
  CHECK(book.lease(1).slots == next);
  CHECK(book.lease(1).moves);
  CHECK(book.owned(1) == both);
  CHECK(book.overdue(1, 100).empty());
  CHECK(book.recalled_since(1) > 1e300);
  // Another one may be meant to have the old slot, and waits for it.
  book.plan({{1, next}, {2, old}});
  book.move(1);
  CHECK(book.settle(2).empty());
  CHECK(book.hear(1, {2, both}, 3).empty());
  // The next plan does not speak of an exchange: now the slot is recalled as any.
  book.plan({{1, next}, {2, old}});
  CHECK(book.settle(4) == std::vector<Holder>{1});
  CHECK_FALSE(book.lease(1).moves);
  CHECK(book.lease(1).version == 3);
  CHECK(book.overdue(1, 4) == old);
  CHECK(book.hear(1, {2, next}, 5).empty());  // it does not know that yet
  CHECK(book.hear(1, {3, next}, 5) == old);
  CHECK(book.settle(6) == std::vector<Holder>{2});
  CHECK(book.broken_rules().empty());
}

TEST_CASE("an exchange can be taken back, and a slot that is to come back first ends it") {
  LeaseBook book = two_hosts();
  const Slots old = slots({{0, 0}, {0, 1}}), next = slots({{0, 0}, {1, 0}});
  book.plan({{1, old}});
  book.settle(0);
  book.plan({{1, next}});
  book.move(1);
  book.settle(1);
  CHECK(book.lease(1).moves);
  book.plan({{1, old}});
  book.settle(2);
  CHECK(book.lease(1).slots == old);
  CHECK_FALSE(book.lease(1).moves);
  CHECK(book.overdue(1, 2) == slots({{1, 0}}));

  LeaseBook smaller = two_hosts();
  smaller.plan({{1, old}});
  smaller.settle(0);
  smaller.plan({{1, next}});
  smaller.move(1);
  smaller.settle(1);
  smaller.plan({{1, slots({{1, 0}})}});
  smaller.move(1);
  smaller.settle(2);
  CHECK(smaller.lease(1).moves);  // both are exchanged for one
  CHECK(smaller.owned(1).size() == 3);
}

TEST_CASE("a record of an exchange gives the same book") {
  LeaseBook book = two_hosts();
  book.recall_lease(1, {1, slots({{0, 0}})}, 0);
  book.recall_lease(1, {2, slots({{1, 0}}), false, kNobody, true}, 1);
  CHECK(book.lease(1).moves);
  CHECK(book.owned(1) == slots({{0, 0}, {1, 0}}));
  CHECK(book.overdue(1, 100).empty());
  book.recall_lease(1, {3, slots({{1, 0}})}, 2);
  CHECK_FALSE(book.lease(1).moves);
  CHECK(book.overdue(1, 2) == slots({{0, 0}}));
}

}  // namespace
}  // namespace elastictrain::heuristics::leases
