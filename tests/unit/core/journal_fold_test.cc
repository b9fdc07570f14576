// What a supervisor that takes a run over reads from records of its predecessors.
#include "supervisor/core/journal_fold.h"

#include <doctest/doctest.h>

#include <initializer_list>

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

}  // namespace
}  // namespace elastictrain::core
