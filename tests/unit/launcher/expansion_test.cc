// When more hosts are requested and which are given back: one scenario per case.
#include "launcher/expansion.h"

#include <doctest/doctest.h>

using namespace elastictrain::launcher;
using std::chrono::milliseconds;

namespace {

Expansion expansion(bool can_shrink = true) {
  return Expansion({.can_expand = true,
                    .can_shrink = can_shrink,
                    .retry_after = milliseconds(100),
                    .longest_retry = milliseconds(250),
                    .shrink_after = milliseconds(1000)});
}

}  // namespace

TEST_CASE("what is missing is asked for once, and again when the answer was not enough") {
  Expansion hosts = expansion();
  CHECK(hosts.step({4, {{"a", 4, 4}}}, milliseconds(0)).missing_slots == 0);
  CHECK(hosts.step({7, {{"a", 4, 4}}}, milliseconds(1)).missing_slots == 3);
  CHECK(hosts.step({9, {{"a", 4, 4}}}, milliseconds(2)).missing_slots == 0);
  hosts.answer({{"b", 2}}, milliseconds(3));
  CHECK(hosts.added() == std::vector<Host>{{"b", 2}});
  CHECK(hosts.step({9, {{"a", 4, 4}}}, milliseconds(4)).missing_slots == 3);
  hosts.answer({{"b", 2}, {"c", 4}}, milliseconds(5));
  CHECK(hosts.added().size() == 2);
  CHECK(hosts.step({9, {{"a", 4, 4}, {"b", 2, 2}}}, milliseconds(6)).missing_slots == 0);
}

TEST_CASE("a command that fails, or brings nothing new, is asked again later and later") {
  Expansion hosts = expansion();
  const HostDemand demand{2, {{"a", 1, 1}}};
  CHECK(hosts.step(demand, milliseconds(0)).missing_slots == 1);
  hosts.failure(milliseconds(0));
  CHECK(hosts.step(demand, milliseconds(99)).missing_slots == 0);
  CHECK(hosts.step(demand, milliseconds(100)).missing_slots == 1);
  hosts.answer({}, milliseconds(100));
  CHECK(hosts.step(demand, milliseconds(299)).missing_slots == 0);
  CHECK(hosts.step(demand, milliseconds(300)).missing_slots == 1);
  hosts.failure(milliseconds(300));
  CHECK(hosts.step(demand, milliseconds(549)).missing_slots == 0);
  CHECK(hosts.step(demand, milliseconds(550)).missing_slots == 1);
}

TEST_CASE("an added host is given back when the others have sufficed for a while, the first ones never") {
  Expansion hosts = expansion();
  hosts.step({4, {{"a", 2, 2}}}, milliseconds(0));
  hosts.answer({{"b", 2}}, milliseconds(0));
  CHECK(hosts.step({4, {{"a", 2, 2}, {"b", 2, 2}}}, milliseconds(10)).released.empty());
  CHECK(hosts.step({2, {{"a", 2, 2}, {"b", 2, 0}}}, milliseconds(20)).released.empty());
  CHECK(hosts.step({3, {{"a", 2, 2}, {"b", 2, 0}}}, milliseconds(900)).released.empty());
  CHECK(hosts.step({2, {{"a", 2, 2}, {"b", 2, 0}}}, milliseconds(1000)).released.empty());
  CHECK(hosts.step({2, {{"a", 2, 2}, {"b", 2, 0}}}, milliseconds(1999)).released.empty());
  CHECK(hosts.step({2, {{"a", 2, 2}, {"b", 2, 0}}}, milliseconds(2000)).released == std::vector<Host>{{"b", 2}});
  CHECK(hosts.added().empty());
  CHECK(hosts.step({0, {{"a", 2, 0}}}, milliseconds(9000)).released.empty());
}

TEST_CASE("of two idle hosts only what is too much goes, and without a command nothing does") {
  Expansion hosts = expansion();
  hosts.answer({{"b", 2}, {"c", 2}}, milliseconds(0));
  const HostDemand demand{4, {{"a", 2, 2}, {"b", 2, 0}, {"c", 2, 0}}};
  CHECK(hosts.step(demand, milliseconds(0)).released.empty());
  CHECK(hosts.step(demand, milliseconds(1000)).released == std::vector<Host>{{"b", 2}});
  CHECK(hosts.added() == std::vector<Host>{{"c", 2}});
  Expansion keeps = expansion(false);
  keeps.answer({{"b", 2}}, milliseconds(0));
  for (const int time : {0, 5000}) CHECK(keeps.step({0, {{"b", 2, 0}}}, milliseconds(time)).released.empty());
}

TEST_CASE("a host that is lost is replaced, and given back") {
  Expansion hosts = expansion();
  hosts.answer({{"b", 2}}, milliseconds(0));
  const HostDemand demand{4, {{"a", 2, 2}, {"b", 0, 0}}};
  CHECK(hosts.step(demand, milliseconds(0)).missing_slots == 2);
  hosts.answer({{"c", 2}}, milliseconds(1));
  const HostDemand with_another{4, {{"a", 2, 2}, {"b", 0, 0}, {"c", 2, 2}}};
  CHECK(hosts.step(with_another, milliseconds(10)).released.empty());
  CHECK(hosts.step(with_another, milliseconds(1010)).released == std::vector<Host>{{"b", 2}});
}
