// A journal that a released binary of schema version 1 wrote (tests/data/README.md) is taken over.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "supervisor/core/membership.h"
#include "supervisor/journal_history.h"
#include "supervisor/recovery_log.h"

using namespace elastictrain;

namespace {

constexpr const char* kStored = ELASTICTRAIN_SOURCE_DIR "/tests/data/journals/version-1.jsonl";

core::Resumed stored() {
  const auto resumed = replay_journal(kStored);
  REQUIRE(resumed.ok());
  return *resumed;
}

struct TemporaryJournal {
  explicit TemporaryJournal(const std::string& text) {
    char name[] = "/tmp/elastictrain-stored-XXXXXX";
    directory = ::mkdtemp(name);
    std::ofstream(path()) << text;
  }
  ~TemporaryJournal() { std::filesystem::remove_all(directory); }
  std::string path() const { return directory + "/journal.jsonl"; }
  std::string directory;
};

}  // namespace

TEST_CASE("a journal of schema version 1 gives the run as it was") {
  const core::Resumed run = stored();
  CHECK(run.generation == 7);
  CHECK(run.issued == 7);
  CHECK(run.members == std::vector<WorkerId>{WorkerId{1}, WorkerId{3}, WorkerId{4}});
  CHECK(run.shares == std::vector<std::uint32_t>{16, 16, 16});
  CHECK(run.workers.size() == 4);  // with the one that was to replace rank 1
  CHECK(run.target == 3);
  CHECK(run.last_worker == 6);
  CHECK(run.plan_update.topology == protocol::Topology::kRing);
  CHECK(run.lineage == std::vector<protocol::Fence>{{1, 1}, {2, 29}, {3, 53}, {5, 64}, {6, 67}, {7, 91}});
  CHECK_FALSE(run.unsettled);
}

TEST_CASE("a state machine takes over from a journal of schema version 1") {
  core::RunSettings settings;
  settings.max_workers = 4;
  core::Membership machine(settings, [] { return Token{1}; });
  Instant now{};
  machine.step(core::Event(stored()), now);
  CHECK(machine.view().generation == 7);
  CHECK(machine.view().world_size == 3);
  machine.step(core::AgentConnected{AgentId{1}, {WorkerId{1}, WorkerId{3}, WorkerId{4}, WorkerId{6}}}, now);
  const core::RunView view = machine.view();
  CHECK(view.phase == core::RunPhase::kRunning);
  CHECK(view.target_size == 3);
  CHECK(view.workers.size() == 4);
}

TEST_CASE("the figures of a run go on from a journal of schema version 1") {
  RecoveryLog recoveries;
  std::size_t views = 0;
  const auto history = read_journal_history(kStored, [&](const core::Record& record) {
    recoveries.take(record, 0);
    views += record.is<core::record::Observed>() ? 1 : 0;
  });
  REQUIRE(history.ok());
  CHECK(history->records == 113);
  CHECK(history->up_s > 2);
  CHECK(recoveries.count() == 1);
  CHECK(recoveries.last()->reason.find("was killed by signal 9") != std::string::npos);
  CHECK(views == 3);
}

TEST_CASE("a journal of a newer version is not taken over") {
  const TemporaryJournal journal(R"({"seq":1,"event":"run_opened","schema":99,"run":"x"})");
  const auto resumed = replay_journal(journal.path());
  REQUIRE_FALSE(resumed.ok());
  CHECK(resumed.error().code == ErrorCode::kUnavailable);
  CHECK(resumed.error().message.find("schema version 99") != std::string::npos);
  const TemporaryJournal older(R"({"seq":1,"event":"run_opened","schema":99,"run":"x"})"
                               "\n"
                               R"({"seq":2,"event":"run_opened","run":"x"})"
                               "\n");
  CHECK(replay_journal(older.path()).ok());
}
