#include "cli/commands/plan/check_report.h"

#include <doctest/doctest.h>

#include "tests/support/contains.h"

using namespace elastictrain::cli;
using elastictrain::test::contains;

namespace {

HostReport host(const std::string& name, std::uint32_t slots) {
  HostReport report;
  report.host = name;
  report.slots = slots;
  report.reached = true;
  return report;
}

HostReport dead(const std::string& name) {
  HostReport report = host(name, 1);
  report.reached = false;
  report.problem = "no answer within 30.0 s";
  return report;
}

}  // namespace

TEST_CASE("hosts that cannot be used are a warning while the others have enough slots") {
  const CheckVerdict good = verdict_on({.hosts = {host("a", 2), dead("b"), dead("c")}, .min_workers = 2});
  CHECK(good.status == 0);
  CHECK(good.text == "good, 1 host with 2 slots");
  CHECK(good.problems.empty());
  REQUIRE(good.warnings.size() == 2);
  CHECK(good.warnings[0] == "host b cannot be used: no answer within 30.0 s");

  const CheckVerdict bad = verdict_on({.hosts = {host("a", 2), dead("b"), dead("c")}, .min_workers = 3});
  CHECK(bad.status == 69);
  CHECK(bad.text == "the run cannot start like this: 3 problems");
}

TEST_CASE("too few slots are named with what there are") {
  const CheckVerdict verdict = verdict_on({.hosts = {host("a", 1)}, .min_workers = 8});
  CHECK(verdict.status == 69);
  REQUIRE(verdict.problems.size() == 1);
  CHECK(contains(verdict.problems[0], "the hosts offer 1 slot, but at least 8 workers must start"));
  CHECK(verdict_on({.hosts = {host("a", 1)}, .min_workers = 8, .hosts_come_later = true}).status == 0);
  CHECK(verdict_on({}).problems.front() == "there is no host");
}

TEST_CASE("a host that lacks the program counts as the run counts it") {
  HostReport lacks = host("b", 1);
  lacks.program_problem = "./train does not exist in /work";
  lacks.program_status = 127;
  CHECK(verdict_on({.hosts = {host("a", 1), lacks}, .min_workers = 1}).status == 0);
  CHECK(verdict_on({.hosts = {host("a", 1), lacks}, .min_workers = 2}).status == 127);
  CHECK(verdict_on({.hosts = {host("a", 1), lacks}, .min_workers = 3}).status == 69);
}

TEST_CASE("data that a worker of the start would not find end the run, those of a later one do not") {
  HostReport lacks = host("b", 1);
  lacks.missing_file = "data.csv in /work cannot be read: No such file or directory";
  const CheckVerdict bad = verdict_on({.hosts = {host("a", 1), lacks}, .min_workers = 1, .start_workers = 2});
  CHECK(bad.status == 66);
  CHECK(bad.problems.front() == "on host b data.csv in /work cannot be read: No such file or directory");
  const CheckVerdict good = verdict_on({.hosts = {host("a", 1), lacks}, .min_workers = 1, .start_workers = 1});
  CHECK(good.status == 0);
  CHECK(good.warnings.size() == 1);
}

TEST_CASE("interpreters that differ are told with their hosts") {
  HostReport old = host("b", 1);
  HostReport a = host("a", 1);
  HostReport c = host("c", 1);
  a.interpreter = c.interpreter = "/usr/bin/python3.11";
  old.interpreter = "/usr/bin/python3.9";
  const CheckVerdict verdict = verdict_on({.hosts = {a, old, c}});
  CHECK(verdict.status == 0);
  REQUIRE(verdict.warnings.size() == 1);
  CHECK(verdict.warnings[0] ==
        "the interpreter is not the same on all hosts: /usr/bin/python3.11 on a, c; /usr/bin/python3.9 on b");
}

TEST_CASE("what ends a run on this machine gives its status") {
  const CheckVerdict verdict =
      verdict_on({.here = {{"log.directory /x cannot be created", 73}}, .hosts = {host("a", 1)}});
  CHECK(verdict.status == 73);
  CHECK(verdict.text == "the run cannot start like this: 1 problem");
}
