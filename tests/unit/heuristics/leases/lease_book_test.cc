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

}  // namespace
}  // namespace elastictrain::heuristics::leases
