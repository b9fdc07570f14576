// A journal of which lines are missing, or stand twice: what is known after it breaks no rule.
#include <doctest/doctest.h>

#include <string>

#include "story.h"

namespace elastictrain::cluster_core::test {
namespace {

JobSpec job_of_up_to(std::uint32_t slots) {
  JobSpec spec;
  spec.arguments = {"--"};
  spec.min = 1;
  spec.start = spec.max = slots;
  spec.suspends = true;
  return spec;
}

// Jobs that come, are paused, grow, shrink and end; slots pass from each to others.
std::vector<Record> eventful_journal() {
  Story story;
  const JobId first = story.submit("first", job_of_up_to(4));
  story.report(first, 10, {});
  const JobId second = story.submit("second", job_of_up_to(2));
  story.report(first, 20, {});
  story.report(second, 20, {});
  story.order(first, Order::kPause);
  story.report(first, 30, {});
  story.report(second, 30, {});
  const JobId third = story.submit("third", job_of_up_to(4));
  story.report(third, 30, {});
  story.order(first, Order::kResume);
  story.give(RunEnded{second, 0});
  story.change_hosts({{"h", 3}, {"i", 2}});
  for (const JobId id : {first, third}) {
    if (story.job(id).connection != 0) story.report(id, 40, {});
  }
  story.give(RunEnded{third, 1});
  return story.journal();
}

// A cluster process begins with it.
std::string broken_rule(const std::vector<Record>& journal) {
  Cluster cluster(Story::plain());
  for (const Record& record : journal) cluster.recall(record, 0);
  cluster.begin(1);
  const auto now = [&] { return cluster.broken_rules().empty() ? std::string() : cluster.broken_rules().front(); };
  if (!now().empty()) return now();
  cluster.step(HostsChanged{{{"h", 3}, {"i", 2}}}, 1);
  cluster.step(Tick{}, 100);
  return now();
}

TEST_CASE("no single line and no run of lines is needed for a state that breaks no rule") {
  const std::vector<Record> whole = eventful_journal();
  REQUIRE(whole.size() > 30);
  REQUIRE(broken_rule(whole).empty());
  for (std::size_t from = 0; from < whole.size(); ++from) {
    for (std::size_t to = from + 1; to <= whole.size(); ++to) {
      auto journal = whole;
      journal.erase(journal.begin() + static_cast<std::ptrdiff_t>(from),
                    journal.begin() + static_cast<std::ptrdiff_t>(to));
      CAPTURE(from);
      CAPTURE(to);
      REQUIRE(broken_rule(journal) == "");
    }
  }
}

TEST_CASE("lines that stand twice, or in each other's place, break no rule") {
  const std::vector<Record> whole = eventful_journal();
  const auto is_list = [](const Record& record) { return std::holds_alternative<record::Hosts>(record); };
  for (std::size_t one = 0; one < whole.size(); ++one) {
    for (std::size_t other = 0; other < whole.size(); ++other) {
      if (is_list(whole[one]) || is_list(whole[other])) continue;  // read_journal_line() looks for itself
      auto twice = whole, exchanged = whole;
      twice[other] = whole[one];
      std::swap(exchanged[one], exchanged[other]);
      CAPTURE(one);
      CAPTURE(other);
      REQUIRE(broken_rule(twice) == "");
      REQUIRE(broken_rule(exchanged) == "");
    }
  }
}

}  // namespace
}  // namespace elastictrain::cluster_core::test
