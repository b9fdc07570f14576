#include "supervisor/host_groups.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace elastictrain {
namespace {

using Names = std::vector<std::string>;
using std::chrono::seconds;

constexpr HostGroups::Instant kThen{seconds(1000)};

std::vector<launcher::Host> hosts_named(const Names& names) {
  std::vector<launcher::Host> list;
  for (const std::string& name : names) list.push_back({name, 1});
  return list;
}

Names names_of_groups(HostGroups& groups, const std::vector<launcher::Host>& offered, HostGroups::Instant now = kThen) {
  Names names;
  for (const launcher::Host& group : groups.offer(offered, now).groups) names.push_back(group.name);
  return names;
}

TEST_CASE("hosts are grouped in their order, and the rest is left over") {
  HostGroups pairs(2);
  const auto offer = pairs.offer(hosts_named({"a", "b", "c", "d", "e"}), kThen);
  REQUIRE(offer.groups.size() == 2);
  CHECK(offer.groups[0].name == "a+b");
  CHECK(offer.groups[1].name == "c+d");
  CHECK(offer.left_over == Names{"e"});
  HostGroups threes(3);
  CHECK(names_of_groups(threes, hosts_named({"a", "b"})).empty());
  CHECK(hosts_of_group("a+b+c") == Names{"a", "b", "c"});
  CHECK(hosts_of_group("a") == Names{"a"});
}

TEST_CASE("a group has the slots of its smallest host; a host that is named twice has those of both") {
  HostGroups pairs(2);
  const auto offer = pairs.offer({{"a", 2}, {"b", 1}, {"b", 2}, {"c", 4}, {"none", 0}, {"d", 1}}, kThen);
  REQUIRE(offer.groups.size() == 2);
  CHECK(offer.groups[0].slots == 2);
  CHECK(offer.groups[1].name == "c+d");
  CHECK(offer.groups[1].slots == 1);
  CHECK(offer.left_over == Names{"none"});
}

TEST_CASE("groups stay while their hosts are offered, wherever new hosts stand in the list") {
  HostGroups pairs(2);
  CHECK(names_of_groups(pairs, hosts_named({"b", "d"})) == Names{"b+d"});
  CHECK(names_of_groups(pairs, hosts_named({"a", "b", "c", "d"})) == Names{"b+d", "a+c"});
  CHECK(names_of_groups(pairs, hosts_named({"a", "b", "d", "e"})) == Names{"b+d", "a+e"});
}

TEST_CASE("hosts are grouped anew when the run has left them") {
  HostGroups pairs(2);
  CHECK(names_of_groups(pairs, hosts_named({"a", "b", "c"})) == Names{"a+b"});
  pairs.begun("a+b");
  CHECK(names_of_groups(pairs, hosts_named({"a", "c"})).empty());  // workers still leave a
  SUBCASE("they end") {
    pairs.ended("a+b");
    CHECK(names_of_groups(pairs, hosts_named({"a", "c"})) == Names{"a+c"});
  }
  SUBCASE("the host comes back first") {
    CHECK(names_of_groups(pairs, hosts_named({"a", "b", "c"})) == Names{"a+b"});
  }
}

TEST_CASE("the groups of a run that is taken over stay") {
  HostGroups pairs(2);
  pairs.begun("b+c");
  CHECK(names_of_groups(pairs, hosts_named({"a", "b", "c", "d"})) == Names{"b+c", "a+d"});
  CHECK(pairs.group_of("c") == "b+c");
  CHECK(pairs.group_of("d") == "a+d");
  CHECK(!pairs.group_of("x"));
}

TEST_CASE("a host that failed leaves its group where the others can be grouped without it") {
  HostGroups pairs(2);
  CHECK(names_of_groups(pairs, hosts_named({"a", "b", "c", "d", "s"})) == Names{"a+b", "c+d"});
  pairs.begun("a+b");
  pairs.begun("c+d");
  pairs.failed("b", kThen);
  CHECK(names_of_groups(pairs, hosts_named({"a", "b", "c", "d", "s"})) ==
        Names{"a+b", "c+d"});  // the run has not given it up
  pairs.ended("a+b");
  CHECK(names_of_groups(pairs, hosts_named({"a", "b", "c", "d", "s"})) == Names{"c+d", "a+s"});
}

TEST_CASE("without enough other hosts the group of a host that failed stays, and is tried again") {
  HostGroups pairs(2);
  CHECK(names_of_groups(pairs, hosts_named({"a", "b", "c", "d"})) == Names{"a+b", "c+d"});
  pairs.failed("b", kThen);
  CHECK(names_of_groups(pairs, hosts_named({"a", "b", "c", "d"})) == Names{"a+b", "c+d"});
  pairs.failed("d", kThen);
  CHECK(names_of_groups(pairs, hosts_named({"a", "b", "c", "d"})) == Names{"a+c", "b+d"});
}

TEST_CASE("a host that failed is used where no other is left, and again after a while") {
  HostGroups pairs(2);
  pairs.failed("a", kThen);
  CHECK(names_of_groups(pairs, hosts_named({"a", "b", "c"})) == Names{"b+c"});
  CHECK(names_of_groups(pairs, hosts_named({"a", "b", "c", "d"})) == Names{"b+c", "d+a"});
  HostGroups later(2);
  later.failed("a", kThen);
  CHECK(names_of_groups(later, hosts_named({"a", "b", "c"}), kThen + seconds(3600)) == Names{"a+b"});
  HostGroups repaired(2);
  repaired.failed("a", kThen);
  repaired.works("a");
  CHECK(names_of_groups(repaired, hosts_named({"a", "b", "c"})) == Names{"a+b"});
}

TEST_CASE("hosts of different jobs of a batch system are not grouped") {
  HostGroups pairs(2);
  CHECK(names_of_groups(pairs, {{"a", 1, "7"}, {"b", 1, "8"}, {"c", 1, "7"}, {"d", 1}, {"e", 1}}) ==
        Names{"a+c", "d+e"});
}

}  // namespace
}  // namespace elastictrain
