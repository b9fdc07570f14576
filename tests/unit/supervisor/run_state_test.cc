// The record of the whole state (core/snapshot.cc) and its reader (journal_history.h), which must agree with
// the records of single events.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "supervisor/core/membership.h"
#include "supervisor/journal_codec.h"
#include "supervisor/journal_history.h"
#include "supervisor/protocol/limits.h"

using namespace elastictrain;
using namespace elastictrain::core;

namespace {

// The parts of a run's state that matter to the next supervisor, for comparison.
std::string text_of(const Resumed& run) {
  std::string text = "generation " + std::to_string(run.generation) + " issued " + std::to_string(run.issued) +
                     " target " + std::to_string(run.target) + " " + run.target_reason + " ids " +
                     std::to_string(run.last_agent) + " " + std::to_string(run.last_worker) +
                     (run.unsettled ? " unsettled" : "") +
                     (run.refused ? " refused " + std::to_string(run.refused->size) + " " + run.refused->reason : "") +
                     (run.hold ? std::string(" held ") + (run.hold->duration.count() > 0 ? "for a time" : "") : "") +
                     " batch " + std::to_string(run.plan_update.program_batch.value_or(0)) + " of at most " +
                     std::to_string(run.plan_update.program_max_global.value_or(0));
  for (const auto& agent : run.agents) {
    text += " a" + std::to_string(agent.agent.value) + agent.host + std::to_string(agent.slots) +
            (agent.drain ? "!" : "") + (agent.drained ? "-" : "") + (agent.noticed ? "n" : "");
  }
  for (const auto& worker : run.workers) {
    text += " w" + std::to_string(worker.worker.value) + "@" + std::to_string(worker.agent.value) + ":" +
            std::to_string(worker.slot);
  }
  for (std::size_t i = 0; i < run.members.size(); ++i) {
    const bool lives = std::any_of(run.workers.begin(), run.workers.end(),
                                   [&](const auto& worker) { return worker.worker == run.members[i]; });
    if (!lives) continue;
    text += " m" + std::to_string(run.members[i].value) + "=" + std::to_string(run.shares.at(i));
  }
  for (WorkerId id : run.unsettled_members) text += " u" + std::to_string(id.value);
  for (WorkerId id : run.finished) text += " f" + std::to_string(id.value);
  for (const auto& fence : run.lineage) {
    text += " l" + std::to_string(fence.generation) + ":" + std::to_string(fence.first_step);
  }
  return text;
}

class Scene {
 public:
  Scene() : machine_(settings(), [this] { return Token{static_cast<std::uint8_t>(++tokens_)}; }) {
    journal_.take(R"({"event":"run_opened","start_workers":2})");
  }

  void feed(const Event& event) {
    now_ += Millis(10);
    for (const Action& action : machine_.step(event, now_)) {
      if (const auto* record = std::get_if<core::Journal>(&action))
        journal_.take(encode_journal_line(record->record, 0, 0, 0));
      const auto* send = std::get_if<SendToWorkers>(&action);
      if (send == nullptr) continue;
      if (const auto* prepare = std::get_if<protocol::Prepare>(&send->message)) generation_ = prepare->plan.generation;
      if (const auto* abort = std::get_if<protocol::Abort>(&send->message)) fence_ = abort->fence;
    }
  }
  void say(std::uint32_t worker, protocol::WorkerUp message) {
    feed(WorkerMessage{WorkerId{worker}, std::move(message)});
  }
  void ready(std::uint32_t worker) {
    say(worker, protocol::WorkerHello{limits::kProtocolVersion, WorkerId{worker}, 100, "test"});
    say(worker, protocol::WorkerReady{{}, 1000, 7, 60000, 64});
  }
  void prepared(std::uint32_t worker) { say(worker, protocol::WorkerPrepared{generation_}); }
  void active(std::uint32_t worker, Step step) { say(worker, protocol::WorkerActive{generation_, step, 0}); }
  void halted(std::uint32_t worker, Step step) { say(worker, protocol::WorkerHalted{fence_, 1, step, true, true, ""}); }

  std::string by_events() const { return text_of(journal_.result()); }
  // Only from that one record, after missing records.
  std::string by_record() const {
    JournalReplay replay;
    replay.take(R"({"event":"run_opened","start_workers":2})");
    replay.take(R"({"event":"journal_gap","lost":1000})");
    replay.take(encode_journal_line(machine_.state_record().record, 0, 0, 0));
    return text_of(replay.result());
  }

 private:
  static RunSettings settings() {
    RunSettings settings;
    settings.start_workers = 2;
    settings.max_workers = 3;
    settings.batch.per_worker = 32;
    settings.batch_of_program = true;
    settings.policy_sizes = true;
    return settings;
  }

  std::uint32_t tokens_ = 0;
  Membership machine_;
  JournalReplay journal_;
  Instant now_{};
  Generation generation_ = 0;
  Generation fence_ = 0;
};

}  // namespace

TEST_CASE("one record of the whole state equals all the records before it") {
  const std::vector<std::pair<const char*, std::function<void(Scene&)>>> story{
      {"hosts",
       [](Scene& run) {
         run.feed(HostsOffered{{{"A", 2}, {"B", 2}}});
       }},
      {"up",
       [](Scene& run) {
         run.feed(AgentConnected{AgentId{1}, {}});
       }},
      {"all up",
       [](Scene& run) {
         run.feed(AgentConnected{AgentId{2}, {}});
       }},
      {"ready", [](Scene& run) { run.ready(1); }},
      {"prepare", [](Scene& run) { run.ready(2); }},
      {"prepared", [](Scene& run) { run.prepared(1); }},
      {"commit", [](Scene& run) { run.prepared(2); }},
      {"active", [](Scene& run) { run.active(1, 1); }},
      {"generation", [](Scene& run) { run.active(2, 1); }},
      {"resize",
       [](Scene& run) {
         run.feed(Resize{1, 3, "more"});
       }},
      {"declined", [](Scene& run) { run.say(3, protocol::WorkerDeclines{"no"}); }},
      {"refused", [](Scene& run) { run.say(4, protocol::WorkerDeclines{"no"}); }},
      {"resize again",
       [](Scene& run) {
         run.feed(Resize{2, 3, "more"});
       }},
      {"join", [](Scene& run) { run.ready(5); }},
      {"notice",
       [](Scene& run) {
         run.feed(HostNoticed{AgentId{2}, "it goes away"});
       }},
      {"abort",
       [](Scene& run) {
         run.feed(WorkerExited{WorkerId{2}, 0, 9, {}});
       }},
      {"recover", [](Scene& run) { run.halted(1, 5); }},
      {"recover prepared", [](Scene& run) { run.prepared(1); }},
      {"recovered", [](Scene& run) { run.active(1, 6); }},
      {"finished", [](Scene& run) { run.say(1, protocol::WorkerFinished{9}); }},
  };
  Scene run;
  for (const auto& [name, event] : story) {
    event(run);
    INFO(name);
    CHECK(run.by_record() == run.by_events());
  }
}

TEST_CASE("numbers that damaged records name are never given out again") {
  JournalReplay replay;
  replay.take(
      R"({"event":"run_state","generation":7,"issued":3,"plan":9,"plan_members":[12],"committed":true,"last_agent":1,)"
      R"("last_worker":2,"agents":[5],"hosts":["A"],"slots":[2],"workers":[4],"worker_agents":[5],"worker_slots":[0],)"
      R"("members":[4,8],"lineage":[2,6,4,1000],"first_steps":[1,10,20,30]})");
  const core::Resumed run = replay.result();
  CHECK(run.generation == 7);
  CHECK(run.issued == 1000);
  CHECK(run.last_agent == 5);
  CHECK(run.last_worker == 12);
  REQUIRE(run.lineage.size() == 3);
  CHECK(run.lineage[1].generation == 6);
  CHECK(run.lineage[2].generation == 1000);
  replay.take(R"({"event":"journal_gap","lost":18446744073709551615})");
  replay.take(R"({"event":"journal_gap","lost":9007199254740992})");
  replay.take(R"({"event":"journal_gap","lost":9007199254740992})");
  const core::Resumed later = replay.result();
  CHECK(later.issued > run.issued);
  CHECK(later.last_worker > run.last_worker);
  CHECK(later.last_worker < UINT32_MAX);
  CHECK(later.last_agent < UINT32_MAX);
}

TEST_CASE("a record that is no state changes nothing") {
  JournalReplay replay;
  replay.take(R"({"event":"run_opened","start_workers":2})");
  replay.take(R"({"event":"host_offered","host":"A","slots":2,"agent":1})");
  replay.take(R"({"event":"run_state"})");
  CHECK(replay.result().agents.size() == 1);
  replay.take(R"({"event":"run_state","issued":3,"agents":[1,2],"hosts":["A",7],"slots":[1],"workers":[1],"plan":9})");
  CHECK(replay.result().agents.size() == 1);
  CHECK(replay.result().workers.empty());
}
