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
  CHECK(hosts.step({2, {{"a", 2, 2}, {"b", 2, 0}}}, milliseconds(2000)).leaves == std::vector<Host>{{"b", 2}});
  CHECK(hosts.added().empty());
  CHECK(hosts.known() == std::vector<Host>{{"b", 2}});
  CHECK(hosts.step({2, {{"a", 2, 2}}}, milliseconds(2001)).released == std::vector<Host>{{"b", 2}});
  CHECK(hosts.known().empty());
  CHECK(hosts.step({0, {{"a", 2, 0}}}, milliseconds(9000)).released.empty());
}

TEST_CASE("of two idle hosts only what is too much goes, and without a command nothing does") {
  Expansion hosts = expansion();
  hosts.answer({{"b", 2}, {"c", 2}}, milliseconds(0));
  const HostDemand demand{4, {{"a", 2, 2}, {"b", 2, 0}, {"c", 2, 0}}};
  CHECK(hosts.step(demand, milliseconds(0)).released.empty());
  CHECK(hosts.step(demand, milliseconds(1000)).leaves == std::vector<Host>{{"b", 2}});
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
  CHECK(hosts.step(with_another, milliseconds(1010)).leaves == std::vector<Host>{{"b", 2}});
  CHECK(hosts.step(with_another, milliseconds(1020)).released == std::vector<Host>{{"b", 2}});
}

TEST_CASE("a host that is back while earlier workers still end there is not asked for again, nor returned") {
  Expansion hosts = expansion();
  const HostDemand before{4, {{"a", 2, 2}, {"b", 0, 1, false}}};
  CHECK(hosts.step(before, milliseconds(0)).missing_slots == 2);
  hosts.answer({{"b", 2, "8"}}, milliseconds(10));
  const HostDemand still{4, {{"a", 2, 2}, {"b", 0, 1, false}}, true};
  CHECK(hosts.step(still, milliseconds(20)).missing_slots == 0);
  CHECK(hosts.step({2, still.hosts, true}, milliseconds(30)).leaves.empty());
  CHECK(hosts.step({2, still.hosts, true}, milliseconds(9000)).leaves.empty());
  const HostDemand gone{4, {{"a", 2, 2}, {"b", 0, 0}}};
  CHECK(hosts.step(gone, milliseconds(9010)).missing_slots == 2);
}

TEST_CASE("a host that is left is returned when nobody works there any more, and does not count meanwhile") {
  Expansion hosts = expansion();
  hosts.answer({{"b", 2}, {"c", 2}}, milliseconds(0));
  const HostDemand demand{4, {{"a", 2, 2}, {"b", 2, 2}, {"c", 2, 1}}, true};
  CHECK(hosts.step(demand, milliseconds(0)).leaves.empty());
  CHECK(hosts.step(demand, milliseconds(1000)).leaves == std::vector<Host>{{"c", 2}});  // the fewest workers
  const HostDemand still{4, {{"a", 2, 2}, {"b", 2, 2}, {"c", 0, 1}}, true};
  CHECK(hosts.step(still, milliseconds(9000)).released.empty());
  CHECK(hosts.step({6, {{"a", 2, 2}, {"b", 2, 2}, {"c", 2, 1}}, true}, milliseconds(9001)).missing_slots == 2);
  const HostDemand empty{4, {{"a", 2, 2}, {"b", 2, 2}, {"c", 0, 0}}, true};
  CHECK(hosts.step(empty, milliseconds(9002)).released == std::vector<Host>{{"c", 2}});
}

TEST_CASE("what is missing for a moment is not asked for, and a request that is not needed any more is withdrawn") {
  Expansion hosts({.can_expand = true, .expand_after = milliseconds(500), .shrink_after = milliseconds(1000)});
  const HostDemand much{4, {{"a", 2, 2}}}, little{2, {{"a", 2, 2}}};
  CHECK(hosts.step(much, milliseconds(0)).missing_slots == 0);
  CHECK(hosts.step(little, milliseconds(400)).missing_slots == 0);
  CHECK(hosts.step(much, milliseconds(600)).missing_slots == 0);
  CHECK(hosts.step(much, milliseconds(1100)).missing_slots == 2);
  CHECK_FALSE(hosts.step(little, milliseconds(2000)).withdraw);
  CHECK_FALSE(hosts.step(much, milliseconds(2900)).withdraw);
  CHECK_FALSE(hosts.step(little, milliseconds(3000)).withdraw);
  CHECK(hosts.step(little, milliseconds(4000)).withdraw);
  hosts.withdrawn();
  CHECK_FALSE(hosts.step(little, milliseconds(4001)).withdraw);
  CHECK(hosts.step(much, milliseconds(5000)).missing_slots == 0);
  CHECK(hosts.step(much, milliseconds(5500)).missing_slots == 2);  // withdrawing is no failure
}

TEST_CASE("a host whose job has ended is left at once; one that never lasts is asked for later and later") {
  Expansion hosts = expansion();
  const HostDemand demand{4, {{"a", 2, 2}}};
  hosts.step(demand, milliseconds(0));
  hosts.answer({{"b", 2, "7"}}, milliseconds(10));
  CHECK(hosts.lost({"b", "a"}, milliseconds(20)) == std::vector<Host>{{"b", 2, "7"}});
  CHECK(hosts.lost({"b"}, milliseconds(21)).empty());
  CHECK(hosts.added().empty());
  CHECK(hosts.known() == std::vector<Host>{{"b", 2, "7"}});
  CHECK(hosts.step(demand, milliseconds(119)).missing_slots == 0);
  CHECK(hosts.step(demand, milliseconds(120)).missing_slots == 2);
  hosts.answer({{"b", 2, "8"}}, milliseconds(130));
  CHECK(hosts.known() == std::vector<Host>{{"b", 2, "8"}});
  CHECK(hosts.lost({"b"}, milliseconds(2000)).size() == 1);
  CHECK(hosts.step({4, {{"a", 2, 2}, {"b", 2, 2}}}, milliseconds(2001)).missing_slots == 2);
  hosts.answer({{"b", 2, "9"}}, milliseconds(2002));  // the same host by another job, while workers are still there
  CHECK(hosts.added() == std::vector<Host>{{"b", 2, "9"}});
  const auto step = hosts.step({4, {{"a", 2, 2}, {"b", 2, 2}}}, milliseconds(2003));
  CHECK(step.released == std::vector<Host>{{"b", 2, "8"}});
  CHECK(hosts.known() == std::vector<Host>{{"b", 2, "9"}});
}
