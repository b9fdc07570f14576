// What a supervisor that takes a run over reads from records of its predecessors.
#include "supervisor/core/pure/journal_fold.h"

#include <doctest/doctest.h>

#include <initializer_list>
#include <string>
#include <vector>

namespace elastictrain::core {
namespace {

Resumed fold_of(std::initializer_list<Record> records) {
  JournalFold fold;
  for (const Record& each : records) fold.take(each);
  return fold.result();
}

record::RunOpened opened_with(std::uint32_t workers) {
  record::RunOpened opened;
  opened.start_workers = workers;
  opened.max_workers = workers;
  return opened;
}

TEST_CASE("a request that was not answered is not what a later supervisor accepts under the same number") {
  const auto size_after = [](const Record& between) {
    return fold_of({opened_with(4), record::ResizeRequested{1, 2, ""}, between, record::Accepted{1, "done"}}).target;
  };
  CHECK(size_after(record::ReplaceRequested{1, 0, {}}) == 2);
  CHECK(size_after(record::RunResumed{}) == 4);
}

TEST_CASE("a host that leaves a lease is known until it has ended, even if its agent came after a takeover") {
  record::RunOpened opened = opened_with(2);
  opened.leased = true;
  record::RunResumed resumed;
  resumed.leased = true;
  const Record offered = record::HostOffered{"a", 2, AgentId{1}, {}};
  CHECK(fold_of({opened, offered, record::HostVanished{"a"}}).agents.empty());
  const auto agents = fold_of({opened, offered, resumed, record::HostVanished{"a"}}).agents;
  REQUIRE(agents.size() == 1);
  CHECK(agents.front().drain);
}

TEST_CASE("a worker that has left is known as that until its exit is") {
  const Record offered = record::HostOffered{"a", 2, AgentId{1}, {}};
  const Record spawned = record::Spawn{WorkerId{7}, "a", AgentId{1}, 0};
  const Record left = record::Left{WorkerId{7}, 2, 8};
  CHECK_FALSE(fold_of({opened_with(2), offered, spawned}).workers.front().left);
  const auto workers = fold_of({opened_with(2), offered, spawned, left}).workers;
  REQUIRE(workers.size() == 1);
  CHECK(workers.front().left);
  record::Exited exited;
  exited.worker = WorkerId{7};
  CHECK(fold_of({opened_with(2), offered, spawned, left, exited}).workers.empty());
}

TEST_CASE("a change that some workers had adopted begins the generation only for the supervisor that planned it") {
  record::Prepare plan;
  plan.generation = 2;
  plan.previous = 1;
  plan.members = {WorkerId{1}};
  plan.shares = {8};
  plan.fence = 1;
  plan.resume_step = 17;
  record::HaltSettled settled;
  settled.generation = 2;
  settled.fence = 3;
  settled.members = {WorkerId{1}};
  const auto lineage_after = [&](const Record& between) {
    return fold_of({opened_with(1), plan, record::Commit{2, 1, ""}, between, settled}).lineage.size();
  };
  CHECK(lineage_after(record::AllBack{}) == 1);
  CHECK(lineage_after(record::RunResumed{}) == 0);
}

TEST_CASE("a run that was to end at once in the middle of a change is unsettled, even if its members finish") {
  record::GenerationComplete complete;
  complete.generation = 1;
  complete.members = {WorkerId{1}};
  record::Prepare first;
  first.generation = 1;
  first.members = complete.members;
  first.shares = {8};
  record::Prepare stop;
  stop.generation = 2;
  stop.previous = 1;
  const record::Commit commit{2, 0, ""};
  const record::Finished finished{WorkerId{1}, 21};
  CHECK_FALSE(fold_of({opened_with(1), first, complete, stop, commit, finished}).unsettled);
  CHECK(fold_of({opened_with(1), first, complete, stop, commit, record::Ending{"late", true}, finished}).unsettled);
}

TEST_CASE("a run that lost its state before its first step was on disk starts again under a later supervisor, too") {
  record::Commit commit{1, 1, ""};
  const Record lost = record::StateLost{2, 0, true, "the host lost its power"};
  record::GenerationComplete complete;
  complete.generation = 3;
  complete.members = {WorkerId{2}};
  CHECK_FALSE(fold_of({opened_with(1), commit}).restarting);
  CHECK(fold_of({opened_with(1), commit, lost}).restarting);
  CHECK(fold_of({opened_with(1), commit, lost, record::RunResumed{}}).restarting);
  CHECK_FALSE(fold_of({opened_with(1), commit, lost, complete}).restarting);
}

TEST_CASE(
    "a new worker that was sent away is no member for a later supervisor, though its process may still be there") {
  record::GenerationComplete complete;
  complete.generation = 1;
  complete.members = {WorkerId{1}, WorkerId{2}, WorkerId{3}};
  record::Prepare plan;
  plan.generation = 1;
  plan.members = complete.members;
  plan.shares = {8, 9, 10};
  const Resumed after = fold_of({opened_with(3), record::HostOffered{"a", 3, AgentId{1}, {}},
                                 record::Spawn{WorkerId{2}, "a", AgentId{1}, 0}, plan, complete,
                                 record::NewcomerSentAway{WorkerId{2}, "it disagrees"}});
  REQUIRE(after.workers.size() == 1);
  CHECK(after.workers.front().left);
  CHECK(after.members == std::vector<WorkerId>{WorkerId{1}, WorkerId{3}});
  CHECK(after.shares == std::vector<std::uint32_t>{8, 10});
}

TEST_CASE("a change that is given up gives the run its size, unless the run ends with it or never began") {
  record::GenerationComplete complete;
  complete.generation = 1;
  complete.members = {WorkerId{1}};
  const Record opened = opened_with(4);
  const Record given_up = record::GivenUp{"a host is too slow"};
  CHECK(fold_of({opened, complete, given_up}).target == 1);
  CHECK(fold_of({opened, complete, record::Ending{"requested", false}, given_up}).target == 4);
  CHECK(fold_of({opened, complete, record::Ending{"requested", false}, record::RunResumed{}, given_up}).target == 1);
  CHECK(fold_of({opened, given_up}).target == 4);
}

std::vector<std::string> hosts_of(const Resumed& run) {
  std::vector<std::string> hosts;
  for (const auto& agent : run.agents) {
    hosts.push_back(agent.host + (agent.drain ? " drains" : "") + (agent.drained ? ", gone" : "") +
                    (agent.noticed ? ", by notice" : ""));
  }
  return hosts;
}

using Hosts = std::vector<std::string>;

TEST_CASE("a drained host stays drained when its agent has ended, until it is undrained or off the list") {
  const Record opened = opened_with(2);
  const Record offered = record::HostOffered{"a", 2, AgentId{1}, {}};
  const Record connected = record::AgentConnected{"a", AgentId{1}};
  const Record request = record::DrainRequested{1, "a"};
  const Record accepted = record::Accepted{1, "draining host a"};
  const Record released = record::HostReleased{"a", AgentId{1}};
  const Record ended = record::AgentEnded{"a", AgentId{1}, "ended"};
  const Record undrain = record::UndrainRequested{2, "a"};
  const Record done = record::Accepted{2, "again"};
  CHECK(hosts_of(fold_of({opened, offered, connected, request, accepted})) == Hosts{"a drains"});
  CHECK(hosts_of(fold_of({opened, offered, connected, request, accepted, released})) == Hosts{"a drains, gone"});
  CHECK(hosts_of(fold_of({opened, offered, connected, request, accepted, released, ended, record::RunResumed{}})) ==
        Hosts{"a drains, gone"});
  CHECK(hosts_of(fold_of({opened, offered, connected, request, accepted, undrain, done})) == Hosts{"a"});
  CHECK(hosts_of(fold_of({opened, offered, connected, request, accepted, released, undrain, done})).empty());
  CHECK(hosts_of(fold_of({opened, offered, connected, request, accepted, released, undrain,
                          record::HostOffered{"a", 2, AgentId{2}, {}}, done})) == Hosts{"a"});
  CHECK(
      hosts_of(fold_of({opened, offered, connected, request, accepted, released, record::HostVanished{"a"}})).empty());
  CHECK(
      hosts_of(fold_of({opened, offered, connected, request, accepted, record::HostVanished{"a"}, released})).empty());
}

TEST_CASE("a host that was lost, or never came, can be drained; one that gave notice is known as that") {
  const Record opened = opened_with(2);
  const Record offered = record::HostOffered{"a", 2, AgentId{1}, {}};
  const Record connected = record::AgentConnected{"a", AgentId{1}};
  const Record lost = record::AgentLost{"a", AgentId{1}, "gone"};
  const Record request = record::DrainRequested{1, "a"};
  const Record accepted = record::Accepted{1, "draining host a"};
  CHECK(hosts_of(fold_of({opened, offered, connected, lost})).empty());
  CHECK(hosts_of(fold_of({opened, offered, connected, lost, request, accepted})) == Hosts{"a drains, gone"});
  CHECK(hosts_of(fold_of({opened, offered, connected, lost, record::RunResumed{}, request, accepted})).empty());
  CHECK(hosts_of(fold_of({opened, offered, request, accepted})) == Hosts{"a drains, gone"});
  CHECK(hosts_of(fold_of({opened, offered, connected, record::HostNotice{"a", AgentId{1}, "spot"},
                          record::HostReleased{"a", AgentId{1}}})) == Hosts{"a drains, gone, by notice"});
}

}  // namespace
}  // namespace elastictrain::core
