#include "supervisor/journal_history.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <vector>

#include "supervisor/audit_file.h"
#include "tests/support/temporary_directory.h"

using namespace elastictrain;

namespace {

// Two workers on two hosts train in generation 1.
const std::vector<std::string> kTraining{
    R"({"seq":1,"t":1,"up":0,"event":"run_opened","run":"x","start_workers":2,"max_workers":4})",
    R"({"event":"host_offered","host":"A","slots":2,"agent":1})",
    R"({"event":"host_offered","host":"B","slots":1,"agent":2})",
    R"({"event":"agent_connected","host":"A","agent":1})",
    R"({"event":"agent_connected","host":"B","agent":2})",
    R"({"event":"spawn","worker":1,"host":"A","slot":0})",
    R"({"event":"spawn","worker":2,"host":"B","slot":0})",
    R"({"event":"prepare","generation":1,"previous":0,"kind":"start","members":[1,2],"leavers":[],"shares":[32,31],"donors":[],"learning_rate_factor":1.5})",
    R"({"event":"commit","generation":1,"world_size":2})",
    R"({"event":"active","worker":1,"generation":1,"first_step":1,"transfer_bytes":0})",
    R"({"event":"active","worker":2,"generation":1,"first_step":1,"transfer_bytes":0})",
    R"({"event":"generation","generation":1,"kind":"start","first_step":1,"world_size":2,"members":[1,2]})",
};

core::Resumed replay(std::initializer_list<const char*> more) {
  JournalReplay replay;
  for (const std::string& line : kTraining) replay.take(line);
  for (const char* line : more) replay.take(line);
  return replay.result();
}

std::vector<std::uint32_t> values(const std::vector<WorkerId>& ids) {
  std::vector<std::uint32_t> list;
  for (WorkerId id : ids) list.push_back(id.value);
  return list;
}

using Ids = std::vector<std::uint32_t>;

using Directory = test::TemporaryDirectory;

}  // namespace

TEST_CASE("a run that trains is taken over as it is") {
  const core::Resumed run = replay({});
  REQUIRE(run.agents.size() == 2);
  CHECK(run.agents[0].host == "A");
  CHECK(run.agents[0].slots == 2);
  REQUIRE(run.workers.size() == 2);
  CHECK(run.workers[1].agent == AgentId{2});
  CHECK(run.workers[1].slot == 0);
  CHECK(run.generation == 1);
  CHECK(run.issued == 1);
  CHECK(values(run.members) == Ids{1, 2});
  CHECK(run.shares == std::vector<std::uint32_t>{32, 31});
  CHECK(run.learning_rate_factor == 1.5);
  CHECK(run.lineage == std::vector<protocol::Fence>{{1, 1}});
  CHECK(run.target == 2);
  CHECK_FALSE(run.unsettled);
  CHECK(run.last_agent == 2);
  CHECK(run.last_worker == 2);
}

TEST_CASE("a starting worker is no reason to query all workers") {
  const core::Resumed run = replay({R"({"event":"resize_requested","request":1,"target":3,"reason":"more"})",
                                    R"({"event":"accepted","request":1,"text":"growing"})",
                                    R"({"event":"spawn","worker":3,"host":"A","slot":1})"});
  CHECK(run.workers.size() == 3);
  CHECK(run.target == 3);
  CHECK(run.target_reason == "more");
  CHECK_FALSE(run.unsettled);
}

TEST_CASE("a refused request has no effect, a drained host stays drained, a shrunk run stays small") {
  const core::Resumed run =
      replay({R"({"event":"resize_requested","request":1,"target":9,"reason":""})",
              R"({"event":"refused","request":1,"text":"no"})", R"({"event":"drain_requested","request":2,"host":"B"})",
              R"({"event":"accepted","request":2,"text":"draining host B"})",
              R"({"event":"target","target":1,"reason":"a worker was lost"})"});
  CHECK(run.target == 1);
  CHECK(run.target_reason == "a worker was lost");
  CHECK_FALSE(run.agents[0].drain);
  CHECK(run.agents[1].drain);
}

TEST_CASE("how the workers train together outlives the supervisor") {
  const core::Resumed run = replay(
      {R"({"event":"reshared","per_worker":64,"wished_topology":"ring"})",
       R"({"event":"reshared","per_worker":64,"wished_factor":0.5,"wished_noise_scale":640,"wished_topology":"ring","wished_fathers":[1,1],"wished_synchronization":"averaging"})"});
  CHECK(run.plan_update.per_worker == 64);
  CHECK(run.plan_update.learning_rate_factor == 0.5);
  CHECK(run.plan_update.noise_scale == 640);
  CHECK(run.plan_update.topology == protocol::Topology::kRing);
  CHECK(run.plan_update.parents == std::vector<std::uint32_t>{1, 1});
  CHECK(run.plan_update.synchronization == protocol::Synchronization::kAveraging);
  CHECK(run.synchronization == protocol::Synchronization::kGradients);  // requested, not begun
}

TEST_CASE("a host that comes back is drained no more") {
  const core::Resumed run =
      replay({R"({"event":"notice","host":"A","agent":1})", R"({"event":"notice","host":"B","agent":2})",
              R"({"event":"host_vanished","host":"B"})", R"({"event":"host_back","host":"B"})"});
  CHECK(run.agents[0].drain);
  CHECK_FALSE(run.agents[1].drain);
}

TEST_CASE("a plan that was prepared, and a change that was committed, are unsettled") {
  const char* prepare =
      R"({"event":"prepare","generation":2,"previous":1,"members":[1,2,3],"leavers":[],"shares":[1,1,1]})";
  const char* spawn = R"({"event":"spawn","worker":3,"host":"A","slot":1})";
  CHECK(replay({spawn, prepare}).unsettled);
  CHECK(replay({spawn, prepare}).issued == 2);
  CHECK_FALSE(replay({spawn, prepare, R"({"event":"cancel","generation":2,"reason":"x"})"}).unsettled);
  const core::Resumed run = replay({spawn, prepare, R"({"event":"commit","generation":2})"});
  CHECK(run.unsettled);
  CHECK(run.generation == 1);
  CHECK(values(run.members) == Ids{1, 2});
  CHECK(values(run.unsettled_members) == Ids{1, 2, 3});
}

TEST_CASE("a recovery uses up its fence, and ends with the generation after it") {
  const char* exited = R"({"event":"exited","worker":2,"host":"B","exit_code":0,"signal":9,"last_error_lines":[]})";
  const char* abort = R"({"event":"abort","fence":2,"generation":1,"reason":"w2","members":[1]})";
  core::Resumed run = replay({exited, abort});
  CHECK(run.unsettled);
  CHECK(run.issued == 2);
  CHECK(run.workers.size() == 1);
  CHECK(values(run.unsettled_members) == Ids{1});
  run = replay(
      {exited, abort, R"({"event":"halt_settled","fence":2,"generation":1,"committed_step":41,"holders":[1]})",
       R"({"event":"prepare","generation":3,"previous":1,"members":[1],"shares":[32],"fence":2,"resume_step":41})",
       R"({"event":"commit","generation":3})",
       R"({"event":"generation","generation":3,"kind":"recover","first_step":42,"world_size":1,"members":[1]})"});
  CHECK_FALSE(run.unsettled);
  CHECK(run.generation == 3);
  CHECK(run.lineage == std::vector<protocol::Fence>{{1, 1}, {3, 42}});
}

TEST_CASE("a change that some had taken when a fence ended it was a generation") {
  const core::Resumed run =
      replay({R"({"event":"prepare","generation":2,"previous":1,"members":[1,2],"shares":[4,4]})",
              R"({"event":"commit","generation":2})", R"({"event":"active","worker":1,"generation":2,"first_step":17})",
              R"({"event":"abort","fence":3,"generation":1,"reason":"x","members":[1,2]})",
              R"({"event":"halt_settled","fence":3,"generation":2,"committed_step":17,"holders":[1]})"});
  CHECK(run.generation == 2);
  CHECK(run.unsettled);
  CHECK(run.lineage == std::vector<protocol::Fence>{{1, 1}, {2, 17}});
}

TEST_CASE("a start that one member has begun is part of the lineage, whatever becomes of it") {
  const core::Resumed run =
      replay({R"({"event":"abort","fence":2,"generation":1,"reason":"x","members":[]})",
              R"({"event":"state_lost","fence":2,"generation":1,"reason":"x"})",
              R"({"event":"prepare","generation":3,"previous":0,"members":[3,4],"shares":[4,4]})",
              R"({"event":"commit","generation":3})", R"({"event":"active","worker":3,"generation":3,"first_step":21})",
              R"({"event":"abort","fence":4,"generation":0,"reason":"y","members":[]})",
              R"({"event":"state_lost","fence":4,"generation":0,"reason":"y"})"});
  CHECK(run.lineage == std::vector<protocol::Fence>{{1, 1}, {3, 21}});
}

TEST_CASE("with the state the generation is lost, its number is not") {
  const core::Resumed run = replay({R"({"event":"abort","fence":2,"generation":1,"reason":"x","members":[]})",
                                    R"({"event":"state_lost","fence":2,"generation":1,"reason":"x"})"});
  CHECK(run.generation == 0);
  CHECK(run.members.empty());
  CHECK(run.issued == 2);
  CHECK_FALSE(run.unsettled);
  CHECK(run.lineage.size() == 1);
}

TEST_CASE("a lost host takes its workers with it and may come back under another id") {
  const core::Resumed run = replay({R"({"event":"agent_lost","host":"B","agent":2,"reason":"link down"})",
                                    R"({"event":"host_again","host":"B","slots":1,"agent":3})",
                                    R"({"event":"agent_connected","host":"B","agent":3})",
                                    R"({"event":"spawn","worker":3,"host":"B","slot":0})"});
  REQUIRE(run.agents.size() == 2);
  CHECK(run.agents[1].agent == AgentId{3});
  REQUIRE(run.workers.size() == 2);
  CHECK(run.workers[1].worker == WorkerId{3});
  CHECK(run.workers[1].agent == AgentId{3});
  CHECK(run.last_agent == 3);
  CHECK(run.last_worker == 3);
}

TEST_CASE("torn lines, malformed lines and unknown events are skipped") {
  JournalReplay replay;
  for (const std::string& line : kTraining) replay.take(line);
  for (const char* line :
       {R"({"seq":13,"t":1,"event":"comm)", "", "[]", "7", R"({"event":7})", R"({"event":"something_new","worker":1})",
        R"({"event":"exited","worker":-1})", R"({"event":"spawn","worker":"1","host":7})",
        R"({"event":"prepare","generation":"x","members":{"a":1}})", "\xff\xfe"}) {
    replay.take(line);
  }
  CHECK(replay.unreadable() == 5);
  CHECK(replay.result().workers.size() == 2);
  CHECK(replay.result().generation == 1);
}

TEST_CASE("an older run of the same name does not count, and an ended run is recognized") {
  JournalReplay replay;
  for (const std::string& line : kTraining) replay.take(line);
  CHECK_FALSE(replay.ended());
  replay.take(R"({"event":"end","status":0,"reason":"the program finished"})");
  CHECK(replay.ended());
  replay.take(R"({"event":"run_opened","run":"x","start_workers":1})");
  CHECK_FALSE(replay.ended());
  const core::Resumed run = replay.result();
  CHECK(run.agents.empty());
  CHECK(run.generation == 0);
  CHECK(run.target == 1);
}

TEST_CASE("the next supervisor knows the finished workers, gone or not, but a new start does not") {
  const char* finished = R"({"event":"finished","worker":1,"last_step":40})";
  const char* exited = R"({"event":"exited","worker":1,"host":"A","exit_code":0,"signal":0})";
  CHECK(replay({}).finished.empty());
  CHECK(values(replay({finished}).finished) == Ids{1});
  CHECK(values(replay({finished, exited}).finished) == Ids{1});
  CHECK(replay({finished, R"({"event":"run_resumed","run":"x","anew":true})"}).finished.empty());
}

TEST_CASE("a restarted run has neither agents nor workers, but continues its numbers") {
  const core::Resumed run = replay({R"({"event":"run_resumed","run":"x","anew":true})"});
  CHECK(run.agents.empty());
  CHECK(run.workers.empty());
  CHECK(run.issued == 1);
  CHECK(run.last_worker == 2);
  CHECK(replay({R"({"event":"run_resumed","run":"x"})"}).workers.size() == 2);
}

TEST_CASE("after another boot of its machine numbers of records that were not synced are not issued again") {
  const auto continued = [](const char* first, const std::string& boot) {
    JournalReplay replay;
    replay.take(first);
    for (std::size_t i = 1; i < kTraining.size(); ++i) replay.take(kTraining[i]);
    replay.continue_in(boot);
    return replay.result();
  };
  const char* known = R"({"event":"run_opened","run":"x","start_workers":2,"boot":"first"})";
  const core::Resumed run = continued(known, "second");
  CHECK(run.issued == 1 + core::kMaxUnsyncedRecords);
  CHECK(run.last_worker == 2 + core::kMaxUnsyncedRecords);
  CHECK(run.last_agent == 2 + core::kMaxUnsyncedRecords);
  CHECK(run.unsettled);
  CHECK(run.workers.size() == 2);
  CHECK(continued(known, "first").last_worker == 2);
  CHECK_FALSE(continued(known, "first").unsettled);
  CHECK(continued(known, "").last_worker == 2);
  CHECK(continued(kTraining[0].c_str(), "second").last_worker == 2);  // an older version wrote it
  const core::Resumed later = replay(
      {R"({"event":"run_resumed","run":"x","boot":"first"})", R"({"event":"run_resumed","run":"x","boot":"second"})"});
  CHECK(later.last_worker == 2 + core::kMaxUnsyncedRecords);
}

TEST_CASE("the audits are stored next to the journal, readable only by the owner, and read back") {
  const Directory directory;
  const std::string journal = directory.path + "/journal.jsonl";
  std::ofstream(journal) << kTraining[0] << "\n"
                         << R"({"seq":2,"event":"host_o)";
  std::vector<std::string> reports;
  const auto report = [&](const std::string& text) { reports.push_back(text); };
  protocol::WorkerAudit first{{{1, 1, 0, 0, 32, true, 0xffffffffffffffff}, {1, 2, 0, 64, 32, false, 0}}, 1, {}};
  protocol::WorkerAudit second{{{1, 2, 0, 96, 32, false, 0}}, 7, WorkerId{2}, true};
  const std::string path = audit_path_of(journal);
  {
    AuditFile file(path, report);
    file.append(WorkerId{1}, first);
  }
  std::ofstream(path, std::ios::app) << R"({"worker":3,"batch":1,"of":0,"steps":[[1,2)";
  {
    AuditFile file(path, report);
    file.append(WorkerId{1}, second);
    CHECK(file.waiting() == 0);
  }
  struct stat found {};
  REQUIRE(::stat(path.c_str(), &found) == 0);
  CHECK((found.st_mode & 0777) == 0600);
  const auto resumed = replay_journal(journal);
  REQUIRE(resumed.ok());
  REQUIRE(resumed->audits.size() == 2);
  CHECK(resumed->audits[0].first == WorkerId{1});
  REQUIRE(resumed->audits[0].second.steps.size() == 2);
  CHECK(resumed->audits[0].second.steps[0].hashed);
  CHECK(resumed->audits[0].second.steps[0].state_hash == 0xffffffffffffffff);
  CHECK(resumed->audits[0].second.steps[1].first_position == 64);
  CHECK(resumed->audits[1].second.batch == 7);
  CHECK(resumed->audits[1].second.of == WorkerId{2});
  CHECK(resumed->audits[1].second.from_checkpoint);
  CHECK_FALSE(resumed->audits[0].second.from_checkpoint);
  AuditFile(path, report).clear();
  CHECK(replay_journal(journal)->audits.empty());
  CHECK(reports.empty());
}

TEST_CASE("audits that cannot be written are reported once") {
  std::vector<std::string> reports;
  AuditFile file("/nowhere/at/all/audit.jsonl", [&](const std::string& text) { reports.push_back(text); });
  file.append(WorkerId{1}, {});
  file.append(WorkerId{1}, {});
  CHECK(file.waiting() == 2);
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].find("/nowhere/at/all/audit.jsonl cannot be written: No such file or directory") !=
        std::string::npos);
}

TEST_CASE("audits that a full disk did not take are written once it does, the torn one as well") {
  const Directory directory;
  const std::string path = directory.file("audit.jsonl");
  std::vector<std::string> reports;
  AuditFile file(path, [&](const std::string& text) { reports.push_back(text); });
  const auto batch = [](std::uint64_t number) {
    return protocol::WorkerAudit{{{1, number, 0, 16 * number, 16, false, 0}}, number, {}, false};
  };
  file.append(WorkerId{1}, batch(1));
  struct stat found {};
  REQUIRE(::stat(path.c_str(), &found) == 0);
  // The kernel cuts a write at the limit, as on a full disk, and refuses the next.
  const auto old_action = ::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small{static_cast<rlim_t>(found.st_size) + 10, limit.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  file.append(WorkerId{1}, batch(2));
  file.append(WorkerId{1}, batch(3));
  ::setrlimit(RLIMIT_FSIZE, &limit);
  ::signal(SIGXFSZ, old_action);
  CHECK(file.waiting() == 2);
  CHECK(reports.size() == 1);
  file.append(WorkerId{1}, batch(4));
  CHECK(file.waiting() == 0);
  const auto records = read_audits(path);
  REQUIRE(records.ok());
  REQUIRE(records->size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK((*records)[i].second.batch == i + 1);
}

TEST_CASE("a journal that is not there is an error that names it") {
  const auto replayed = replay_journal("/nowhere/journal.jsonl");
  REQUIRE_FALSE(replayed.ok());
  CHECK(replayed.error().message.find("/nowhere/journal.jsonl") != std::string::npos);
}

TEST_CASE("a generation whose plan is missing from the journal must be asked about") {
  JournalReplay replay;
  for (const std::string& line : kTraining) {
    if (line.find("\"prepare\"") == std::string::npos) replay.take(line);
  }
  const core::Resumed run = replay.result();
  CHECK(values(run.members) == Ids{1, 2});
  CHECK(run.shares.size() == 2);
  CHECK(run.unsettled);
}

TEST_CASE("numbers that a full disk did not take are not given out again") {
  JournalReplay replay;
  for (const std::string& line : kTraining) replay.take(line);
  const core::Resumed before = replay.result();
  replay.take(R"({"seq":900,"t":1,"up":1,"event":"journal_gap","lost":"5"})");
  CHECK(replay.result().issued == before.issued);  // not a number
  replay.take(R"({"seq":901,"t":1,"up":1,"event":"journal_gap","lost":5})");
  const core::Resumed after = replay.result();
  CHECK(after.issued == before.issued + 5);
  CHECK(after.last_worker == before.last_worker + 5);
  CHECK(after.last_agent == before.last_agent + 5);
  CHECK(after.unsettled);
}

TEST_CASE("a recovery without a known start step fences nothing out") {
  JournalReplay replay;
  for (const std::string& line : kTraining) replay.take(line);
  const auto lineage = replay.result().lineage;
  replay.take(R"({"event":"abort","fence":50,"generation":1,"members":[1,2]})");
  replay.take(R"({"event":"prepare","generation":51,"previous":1,"members":[1,2],"shares":[4,4]})");
  replay.take(R"({"event":"commit","generation":51})");
  replay.take(R"({"event":"halt_settled","fence":52,"generation":51,"members":[1,2]})");
  CHECK(replay.result().generation == 51);
  CHECK(replay.result().lineage == lineage);
}

TEST_CASE("the time for which a user holds the size goes on while no supervisor runs") {
  JournalReplay replay;
  replay.take(R"({"t":1000,"event":"run_opened","start_workers":2})");
  replay.take(R"({"t":1005,"event":"size_held","target":2,"for_ms":60000})");
  replay.take(R"({"t":1030,"event":"observed","view":{}})");
  const auto left = [&](double now_unix_s) { return replay.result(now_unix_s).hold->duration; };
  CHECK(left(1035) == Millis(30'000));
  CHECK(left(1004) == Millis(60'000));  // the clock was set back
  CHECK(left(5000) == Millis(1));
  replay.take(R"({"t":1040,"event":"size_held","target":2})");
  CHECK(left(5000) == Millis(0));  // until it is given back
}
