// Details of the state machine that the scenarios in tests/golden do not cover.
#include "supervisor/core/membership.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "supervisor/core/pure/journal_fold.h"
#include "supervisor/core/pure/settings.h"
#include "supervisor/protocol/limits.h"

using namespace elastictrain;
using namespace elastictrain::core;

namespace {

class Scene {
 public:
  explicit Scene(RunSettings settings) : machine_(std::move(settings), [] { return Token{}; }) {}

  static RunSettings settings(std::uint32_t start, std::uint32_t max) {
    RunSettings settings;
    settings.start_workers = start;
    settings.max_workers = max;
    return settings;
  }

  const Actions& feed(const Event& event) {
    last_ = machine_.step(event, now_);
    for (const Action& action : last_) {
      if (const auto* journal = std::get_if<Journal>(&action)) fold_.take(journal->record);
      if (const auto* timer = std::get_if<ArmTimer>(&action)) newest_timer_ = timer->timer;
      const auto* send = std::get_if<SendToWorkers>(&action);
      if (send == nullptr || !std::holds_alternative<protocol::Prepare>(send->message)) continue;
      plan_ = std::get<protocol::Prepare>(send->message).plan;
      addressed_ = send->workers;
    }
    return last_;
  }
  const Actions& say(std::uint32_t worker, protocol::WorkerUp message) {
    return feed(WorkerMessage{WorkerId{worker}, std::move(message)});
  }
  void hello(std::uint32_t worker) {
    say(worker, protocol::WorkerHello{limits::kProtocolVersion, WorkerId{worker}, 1, "test"});
  }
  void ready(std::uint32_t worker, std::uint32_t batch = 0) {
    hello(worker);
    protocol::WorkerReady message{{}, 100, 1, 1000, batch};
    message.batch_of_all = batch_of_all_;
    say(worker, std::move(message));
  }
  void prepared(Generation generation) {
    for (WorkerId id : std::vector<WorkerId>(addressed_)) say(id.value, protocol::WorkerPrepared{generation});
  }
  void active(Generation generation) {
    for (const auto& member : std::vector<protocol::Member>(plan_.members)) {
      say(member.worker.value, protocol::WorkerActive{generation, 1, 0});
    }
  }
  // One host with `slots` slots and the first generation in training.
  void train(std::uint32_t workers, std::uint32_t slots, std::uint32_t batch = 0) {
    feed(HostsOffered{{{"A", slots}}});
    feed(AgentConnected{AgentId{1}});
    for (std::uint32_t id = 1; id <= workers; ++id) ready(id, batch);
    prepared(1);
    active(1);
    REQUIRE(machine_.view().phase == RunPhase::kRunning);
  }

  template <class T>
  const T* last() const {
    const auto found =
        std::find_if(last_.begin(), last_.end(), [](const auto& a) { return std::holds_alternative<T>(a); });
    return found == last_.end() ? nullptr : &std::get<T>(*found);
  }
  bool sent_commit() const {
    return std::any_of(last_.begin(), last_.end(), [](const Action& action) {
      const auto* send = std::get_if<SendToWorkers>(&action);
      return send != nullptr && std::holds_alternative<protocol::Commit>(send->message);
    });
  }

  void grow_to(std::uint32_t worker, std::uint32_t batch) {
    ready(worker, batch);
    prepared(plan_.generation);
    active(plan_.generation);
  }

  Membership machine_;
  JournalFold fold_;
  bool batch_of_all_ = false;
  std::uint64_t newest_timer_ = 0;
  Instant now_{};
  Actions last_;
  protocol::GenerationPlan plan_;
  std::vector<WorkerId> addressed_;
};

int status_after_exit(std::int32_t code, std::int32_t signal) {
  RunSettings settings = Scene::settings(1, 1);
  settings.failures.max_crashes = 0;
  Scene run(settings);
  run.train(1, 1);
  run.feed(WorkerExited{WorkerId{1}, code, signal, {}});
  const auto* end = run.last<EndRun>();
  return end == nullptr ? -1 : end->exit_status;
}

}  // namespace

TEST_CASE("the status of a failed worker becomes the status of the run") {
  CHECK(status_after_exit(1, 0) == 1);
  CHECK(status_after_exit(125, 0) == 125);
  CHECK(status_after_exit(126, 0) == 1);
  CHECK(status_after_exit(255, 0) == 1);
  CHECK(status_after_exit(0, 9) == 137);
  CHECK(status_after_exit(0, 11) == 139);
  CHECK(status_after_exit(0, 0) == 1);  // a member that ends before its training is over
}

TEST_CASE("a program that cannot be started is tried once in each place, told once for a host, and gives the status") {
  Scene run(Scene::settings(2, 2));
  run.feed(HostsOffered{{{"A", 2}}});
  run.feed(AgentConnected{AgentId{1}});
  const auto fail = [&](std::uint32_t worker) {
    run.feed(WorkerSpawnFailed{WorkerId{worker}, "train is not found in PATH (/bin)", 127});
  };
  fail(1);
  REQUIRE(run.last<Tell>() != nullptr);
  CHECK(run.last<Tell>()->text == "new worker w1 on A could not be started: train is not found in PATH (/bin)");
  const auto* end = run.last<EndRun>();
  if (end == nullptr) fail(2), end = run.last<EndRun>();
  CHECK((run.last<SpawnWorker>() == nullptr));
  REQUIRE(end != nullptr);
  CHECK(end->exit_status == 127);
  CHECK(end->reason == "w2 on A could not be started: train is not found in PATH (/bin). At least 1 worker must start");
}

TEST_CASE("the view of a run says which new worker could not be started, and why a host is lost") {
  Scene run(Scene::settings(2, 2));
  run.feed(HostsOffered{{{"A", 1}, {"B", 1}, {"C", 1}}});
  run.feed(AgentConnected{AgentId{1}});
  run.feed(AgentConnected{AgentId{2}});
  run.feed(AgentLost{AgentId{3}, "ssh: no route", LossEvidence::kNeverCame});
  run.feed(WorkerSpawnFailed{WorkerId{2}, "train is not found in PATH (/bin)", 127});
  const RunView view = run.machine_.view();
  CHECK(view.start_failure == "w2 on B could not be started: train is not found in PATH (/bin)");
  CHECK(view.agents.at(0).problem.empty());
  CHECK(view.agents.at(2).problem == "ssh: no route");
}

TEST_CASE("a run that starts again does not say how many workers can train before it has asked a host") {
  Scene run(Scene::settings(2, 2));
  Resumed again;
  again.issued = 2;
  again.lineage = {{1, 1}};
  again.restarting = true;
  again.target = 2;
  run.feed(again);
  CHECK((run.last<Tell>() == nullptr));
  run.feed(HostsOffered{{}});
  CHECK(run.machine_.view().unmet.find("2 workers are requested and 0 can train") == 0);
}

TEST_CASE("an answer to a cancelled plan does not count for its successor") {
  Scene run(Scene::settings(1, 3));
  run.train(1, 3);
  run.feed(Resize{1, 3, ""});
  run.ready(2);
  run.ready(3);
  REQUIRE(run.plan_.generation == 2);
  run.feed(Resize{2, 2, ""});
  REQUIRE(run.plan_.generation == 3);
  run.prepared(2);
  CHECK_FALSE(run.sent_commit());
  run.prepared(3);
  CHECK(run.sent_commit());
}

TEST_CASE("a worker that starts is told the epoch of a member that has trained") {
  Scene run(Scene::settings(1, 2));
  run.train(1, 2);
  const auto answer_to = [&](std::uint32_t worker) {
    run.say(worker, protocol::WorkerAsksEpoch{});
    const auto* sent = run.last<SendToWorkers>();
    REQUIRE(sent != nullptr);
    CHECK((sent->workers == std::vector<WorkerId>{WorkerId{worker}}));
    return std::get<protocol::RunEpoch>(sent->message).epoch;
  };
  run.feed(Resize{1, 2, ""});
  CHECK(answer_to(2) == 0);
  protocol::WorkerSample sample{.worker = WorkerId{1}};
  sample.heartbeat = {.generation = 1, .step = 90, .epoch = 7};
  run.feed(AgentReported{AgentId{1}, {.workers = {sample}}});
  CHECK(answer_to(2) == 7);
}

TEST_CASE("stale and foreign messages change nothing") {
  Scene run(Scene::settings(1, 2));
  run.train(1, 2);
  CHECK(run.say(1, protocol::WorkerPrepared{1}).empty());
  CHECK(run.say(1, protocol::WorkerActive{1, 1, 0}).empty());
  CHECK(run.say(1, protocol::WorkerLeft{1, 1}).empty());
  CHECK(run.say(1, protocol::WorkerPrepareFailed{1, "late"}).empty());
  CHECK(run.say(77, protocol::WorkerFinished{1}).empty());
  CHECK(run.feed(WorkerExited{WorkerId{77}, 1, 0, {}}).empty());
  CHECK(run.feed(TimerFired{999}).empty());
  CHECK(run.feed(AgentLost{AgentId{99}, ""}).empty());
  CHECK(run.feed(AgentReported{AgentId{99}, {}}).empty());
  CHECK(run.machine_.view().world_size == 1);
}

TEST_CASE("an unknown agent is stopped") {
  Scene run(Scene::settings(1, 1));
  run.train(1, 1);
  run.feed(AgentConnected{AgentId{42}});
  REQUIRE(run.last<StopAgent>() != nullptr);
  CHECK(run.last<StopAgent>()->agent == AgentId{42});
}

TEST_CASE("an agent's report cannot speak for the workers of another") {
  Scene run(Scene::settings(2, 2));
  run.feed(HostsOffered{{{"A", 1}, {"B", 1}}});
  run.feed(AgentConnected{AgentId{1}});
  run.feed(AgentConnected{AgentId{2}});
  protocol::WorkerSample sample;
  sample.worker = WorkerId{1};
  sample.heartbeat.step = 50;
  run.feed(AgentReported{AgentId{2}, {1, {sample}}});
  CHECK(run.machine_.view().workers[0].heartbeat.step == 0);
  run.feed(AgentReported{AgentId{1}, {1, {sample}}});
  CHECK(run.machine_.view().workers[0].heartbeat.step == 50);
}

TEST_CASE("a commit and the end are on disk before they happen") {
  Scene run(Scene::settings(1, 1));
  run.feed(HostsOffered{{{"A", 1}}});
  run.feed(AgentConnected{AgentId{1}});
  run.ready(1);
  run.prepared(1);
  REQUIRE(run.sent_commit());
  const Journal* journal = nullptr;
  for (std::size_t i = 0; i < run.last_.size(); ++i) {
    const auto* entry = std::get_if<Journal>(&run.last_[i]);
    if (entry != nullptr && entry->record.is<record::Commit>()) {
      journal = entry;
      REQUIRE(i + 1 < run.last_.size());
      CHECK(std::holds_alternative<SendToWorkers>(run.last_[i + 1]));
    }
  }
  REQUIRE(journal != nullptr);
  CHECK(journal->sync);
}

TEST_CASE("a library of another protocol version is named and stopped") {
  Scene run(Scene::settings(1, 2));
  run.train(1, 2);
  run.feed(Resize{1, 2, ""});
  run.say(2, protocol::WorkerHello{99, WorkerId{2}, 1, "9.9"});
  REQUIRE(run.last<StopWorker>() != nullptr);
  CHECK(run.last<Tell>()->text.find("protocol 99 (library 9.9)") != std::string::npos);
}

TEST_CASE("audit records find samples that count twice, and the end sums them up") {
  Scene run(Scene::settings(1, 1));
  run.train(1, 1);
  protocol::AuditStep step;
  step.generation = 1;
  step.step = 1;
  step.count = 32;
  run.say(1, protocol::WorkerAudit{{step}});
  CHECK(run.last_.empty());
  run.say(1, protocol::WorkerAudit{{step}});
  REQUIRE(run.last<Journal>() != nullptr);
  CHECK(run.last<Journal>()->record.is<record::AuditViolation>());
  CHECK(run.last<Tell>()->level == Tell::Level::kError);
  run.say(1, protocol::WorkerFinished{1});
  run.feed(WorkerExited{WorkerId{1}, 0, 0, {}});
  const auto audit = std::find_if(run.last_.begin(), run.last_.end(), [](const Action& action) {
    const auto* journal = std::get_if<Journal>(&action);
    return journal != nullptr && journal->record.is<record::Audit>();
  });
  REQUIRE(audit != run.last_.end());
  CHECK(run.last<EndRun>()->exit_status == kStatusAuditFailed);
}

TEST_CASE("a run whose workers have different parameters ends with the status of a failed audit") {
  Scene run(Scene::settings(2, 2));
  run.train(2, 2);
  for (std::uint32_t id : {1, 2}) {
    protocol::AuditStep step{.generation = 1, .step = 1, .first_position = 32 * id, .count = 32, .hashed = true};
    step.state_hash = id;
    run.say(id, protocol::WorkerAudit{{step}});
  }
  for (std::uint32_t id : {1, 2}) run.say(id, protocol::WorkerFinished{1});
  for (std::uint32_t id : {1, 2}) run.feed(WorkerExited{WorkerId{id}, 0, 0, {}});
  REQUIRE(run.last<EndRun>() != nullptr);
  CHECK(run.last<EndRun>()->exit_status == kStatusAuditFailed);
  CHECK(run.last<EndRun>()->reason.find("1 time the parameters of two workers differed") != std::string::npos);
}

TEST_CASE("the account of a lost worker still counts") {
  Scene run(Scene::settings(1, 1));
  run.train(1, 1);
  const protocol::WorkerAudit audit{{{.generation = 1, .step = 1, .count = 32}}};
  run.say(1, audit);
  run.say(9, audit);
  REQUIRE(run.last<Journal>() != nullptr);
  CHECK(run.last<Journal>()->record.is<record::AuditViolation>());
}

TEST_CASE("a supervisor that takes over during a restart knows its start point") {
  Scene run(Scene::settings(1, 1));
  Resumed resumed;
  resumed.agents = {{AgentId{1}, "A", 1}};
  resumed.workers = {{WorkerId{7}, AgentId{1}, 0}};
  resumed.issued = 3;
  resumed.lineage = {{1, 1}};
  resumed.unsettled = true;
  resumed.unsettled_members = {WorkerId{7}};
  resumed.target = 1;
  resumed.audits = {{WorkerId{1}, {{{.generation = 1, .step = 21, .first_position = 640, .count = 32}}, 1}}};
  run.feed(resumed);
  run.feed(HostsOffered{{{"A", 1}}});
  run.feed(AgentConnected{AgentId{1}, {WorkerId{7}}});
  run.ready(7);
  run.say(7, protocol::WorkerActive{3, 21, 0});
  REQUIRE(run.last<Journal>() != nullptr);
  CHECK(run.last<Journal>()->record.is<record::Active>());
  run.say(7, protocol::WorkerActive{3, 21, 0});
  CHECK(run.last_.empty());
  run.say(7, protocol::WorkerAudit{{{.generation = 3, .step = 21, .first_position = 640, .count = 32}}, 1});
  CHECK(run.last_.empty());  // the older generation's step 21 is void
  run.say(7, protocol::WorkerHalted{4, 3, 21, true, true, ""});
  CHECK(run.plan_.generation == 5);
  CHECK(run.plan_.lineage == std::vector<protocol::Fence>{{1, 1}, {3, 21}});
}

// The run started again as generation 3, and a power cut of the supervisor's machine took the record of it. The next
// supervisor began generation 6, and this one is the one after it.
TEST_CASE("a generation whose record was lost with a machine is fenced by every later supervisor") {
  Scene run(Scene::settings(1, 1));
  Resumed resumed;
  resumed.agents = {{AgentId{1}, "A", 1}};
  resumed.workers = {{WorkerId{7}, AgentId{1}, 0}};
  resumed.generation = 6;
  resumed.issued = 6;
  resumed.members = {WorkerId{7}};
  resumed.shares = {32};
  resumed.lineage = {{1, 1}, {6, 3}};
  resumed.target = 1;
  const auto used = [](Generation generation, Step step) {
    const std::uint64_t first = (step - 1) * 32;
    return protocol::WorkerAudit{{{.generation = generation, .step = step, .first_position = first, .count = 32}}, 1};
  };
  resumed.audits = {
      {WorkerId{1}, used(1, 1)}, {WorkerId{2}, used(3, 1)}, {WorkerId{2}, used(3, 2)}, {WorkerId{7}, used(6, 3)}};
  run.feed(resumed);
  const bool is_clean = std::none_of(run.last_.begin(), run.last_.end(), [](const Action& action) {
    const auto* journal = std::get_if<Journal>(&action);
    return journal != nullptr && journal->record.is<record::AuditViolation>();
  });
  CHECK(is_clean);
}

// A power cut took the record of generation 1 with its only worker; the run starts anew, from its first sample.
TEST_CASE("what a generation used whose record and state were lost does not count beside a new start") {
  Scene run(Scene::settings(1, 1));
  Resumed resumed;
  resumed.issued = 10'000;
  resumed.last_worker = 10'000;
  resumed.unsettled = true;
  resumed.target = 1;
  const protocol::WorkerAudit lost{{{.generation = 1, .step = 1, .first_position = 0, .count = 32}}, 1};
  resumed.audits = {{WorkerId{1}, lost}};
  run.feed(resumed);
  run.feed(HostsOffered{{{"A", 1}}});
  run.feed(AgentConnected{AgentId{1}});
  run.ready(10'001);
  const Generation begun = run.plan_.generation;
  REQUIRE(begun > 10'000);
  run.say(10'001, protocol::WorkerPrepared{begun});
  run.say(10'001, protocol::WorkerActive{begun, 1, 0});
  run.say(10'001, protocol::WorkerAudit{{{.generation = begun, .step = 1, .first_position = 0, .count = 32}}, 1});
  CHECK(run.last_.empty());
}

TEST_CASE("a worker that left while there was no supervisor is not a loss") {
  Scene run(Scene::settings(1, 2));
  Resumed resumed;
  resumed.agents = {{AgentId{1}, "A", 1}, {AgentId{2}, "B", 1}};
  resumed.workers = {{WorkerId{1}, AgentId{1}, 0}, {WorkerId{2}, AgentId{2}, 0}};
  resumed.generation = 1;
  resumed.issued = 2;
  resumed.members = {WorkerId{1}, WorkerId{2}};
  resumed.shares = {32, 32};
  resumed.lineage = {{1, 1}};
  resumed.unsettled = true;
  resumed.unsettled_members = {WorkerId{1}};
  resumed.target = 1;
  run.feed(resumed);
  run.feed(HostsOffered{{{"A", 1}, {"B", 1}}});
  run.feed(AgentConnected{AgentId{2}});
  run.ready(2);
  run.say(2, protocol::WorkerLeft{2, 20});
  CHECK(run.last<Journal>()->record.is<record::Left>());
  run.feed(WorkerExited{WorkerId{2}, 0, 0, {}});
  CHECK(run.last<Tell>() == nullptr);
  CHECK(run.last<Journal>()->record.is<record::Exited>());
}

TEST_CASE("a worker that exits cleanly after the program has finished elsewhere does not fail the run") {
  Scene run(Scene::settings(2, 2));
  run.train(2, 2);
  run.say(1, protocol::WorkerFinished{1});
  run.feed(WorkerExited{WorkerId{1}, 0, 0, {}});
  run.feed(WorkerExited{WorkerId{2}, 0, 0, {}});
  REQUIRE(run.last<EndRun>() != nullptr);
  CHECK(run.last<EndRun>()->exit_status == 0);
}

TEST_CASE("the view lists members by rank, then the others") {
  RunSettings settings = Scene::settings(2, 4);
  settings.spares = 1;
  Scene run(settings);
  run.train(2, 4);
  const RunView view = run.machine_.view();
  REQUIRE(view.workers.size() == 3);
  CHECK(view.workers[0].rank == 0);
  CHECK(view.workers[1].rank == 1);
  CHECK_FALSE(view.workers[2].rank.has_value());
  CHECK(view.global_batch == 64);
  CHECK(view.agents.at(0).workers == 3);
}

TEST_CASE("requests after the end are refused, each with one answer") {
  Scene run(Scene::settings(1, 1));
  run.train(1, 1);
  run.say(1, protocol::WorkerFinished{5});
  run.feed(WorkerExited{WorkerId{1}, 0, 0, {}});
  REQUIRE(run.machine_.ended());
  const Actions& answers = run.feed(Resize{9, 1, ""});
  REQUIRE(answers.size() == 1);
  CHECK_FALSE(run.last<Reply>()->accepted);
  CHECK(run.feed(HostsOffered{}).empty());
}

namespace {

RunSettings of_program(std::uint32_t start, std::uint32_t max) {
  RunSettings settings = Scene::settings(start, max);
  settings.batch.per_worker = 32;
  settings.batch_of_program = true;
  settings.learning_rate.rule = LearningRateRule::kLinear;
  return settings;
}

RunSettings with_policy(std::uint32_t start, std::uint32_t max) {
  RunSettings settings = Scene::settings(start, max);
  settings.policy_sizes = true;
  return settings;
}

Resize by_policy(std::uint32_t target) {
  return {.target = target, .reason = "it pays", .by_policy = true};
}

}  // namespace

TEST_CASE("the program's batch counts where the user gave none, and is what the learning rate was chosen for") {
  Scene run(of_program(2, 3));
  run.train(2, 3, 64);
  CHECK(run.machine_.view().global_batch == 128);
  CHECK(run.machine_.view().batch.per_worker == 64);
  CHECK(run.machine_.view().base_batch == 128);
  CHECK(run.machine_.view().learning_rate_factor == 1);
  run.feed(Resize{1, 3, ""});
  run.grow_to(3, 64);
  CHECK(run.machine_.view().global_batch == 192);
  CHECK(run.machine_.view().learning_rate_factor == doctest::Approx(1.5));
  run.feed(UpdatePlan{.request = 2, .per_worker = 16});
  CHECK(run.machine_.view().batch.per_worker == 16);
  CHECK(run.machine_.view().base_batch == 128);
}

TEST_CASE("a program's batch of all workers is divided among them at every size, and by the next supervisor") {
  Scene run(of_program(2, 3));
  run.batch_of_all_ = true;
  run.train(2, 3, 64);
  CHECK(run.machine_.view().global_batch == 64);
  CHECK(run.machine_.view().base_batch == 64);
  run.feed(Resize{1, 3, ""});
  run.grow_to(3, 64);
  CHECK(run.machine_.view().global_batch == 64);
  CHECK(run.machine_.view().learning_rate_factor == 1);
  Scene next(of_program(2, 3));
  next.feed(run.fold_.result());
  CHECK(next.machine_.view().batch.max_global == 64);
}

TEST_CASE("a user's batch counts before the program's, and a program that names none gets the default") {
  Scene run(Scene::settings(1, 1));
  run.train(1, 1, 64);
  CHECK(run.machine_.view().global_batch == 32);
  Scene silent(of_program(1, 1));
  silent.train(1, 1);
  CHECK(silent.machine_.view().global_batch == 32);
}

TEST_CASE("a user's batch is that of one of the batches from which a program makes a step") {
  RunSettings settings = Scene::settings(1, 2);
  settings.batch.per_worker = settings.batch_of_user = 16;
  settings.learning_rate.rule = LearningRateRule::kLinear;
  protocol::WorkerReady accumulates{{}, 100, 1, 1000, 32};
  accumulates.division = {.is_known = true, .batches_per_step = 4};
  Scene run(settings);
  run.feed(HostsOffered{{{"A", 1}}});
  run.feed(AgentConnected{AgentId{1}});
  run.hello(1);
  run.say(1, accumulates);
  CHECK(run.machine_.view().batch.per_worker == 64);
  CHECK(run.machine_.view().base_batch == 64);
  CHECK(run.machine_.view().learning_rate_factor == 1);
  Scene next(settings);  // a supervisor that takes over does not multiply again
  next.feed(run.fold_.result());
  CHECK(next.machine_.view().batch.per_worker == 64);
}

TEST_CASE("a worker that asks for another batch than the first one is refused with both") {
  Scene run(of_program(1, 2));
  run.train(1, 2, 64);
  run.feed(Resize{1, 2, ""});
  run.ready(2, 48);
  const auto* tell = run.last<Tell>();
  REQUIRE(tell != nullptr);
  CHECK(tell->text.find("48") != std::string::npos);
  CHECK(tell->text.find("64") != std::string::npos);
}

TEST_CASE("a worker that divides its data in another way is refused with both values") {
  const auto refusal_of = [](const std::function<void(protocol::WorkerReady&)>& change) {
    Scene run(Scene::settings(2, 2));
    protocol::WorkerReady first{{}, 100, 1, 1000};
    first.division = {.is_known = true, .seed = 7};
    run.feed(HostsOffered{{{"A", 2}}});
    run.feed(AgentConnected{AgentId{1}});
    run.hello(1);
    run.say(1, first);
    run.hello(2);
    change(first);
    run.say(2, first);
    const auto* tell = run.last<Tell>();
    return tell == nullptr ? std::string() : tell->text;
  };
  using Change = void (*)(protocol::WorkerReady&);
  const std::vector<std::pair<Change, std::string>> refusals{
      {[](auto& ready) { ready.division.seed = 8; }, "seed = 8, the rest of the run 7"},
      {[](auto& ready) { ready.division.shuffle = false; }, "shuffle = false, the rest of the run true"},
      {[](auto& ready) { ready.division.drop_last = true; }, "drop_last = true, the rest of the run false"},
      {[](auto& ready) { ready.division.min_local_samples = 2; }, "min_local_samples = 2, the rest of the run 0"},
      {[](auto& ready) { ready.division.batches_per_step = 4; }, "batches_per_step = 4, the rest of the run 1"},
      {[](auto& ready) { ready.batch_of_all = true; }, "batch_of_all = true, the rest of the run false"},
      {[](auto& ready) { ready.epochs = 3; }, "epochs = 3, the rest of the run 0"},
      {[](auto& ready) { ready.max_steps = 9; }, "max_steps = 9, the rest of the run 0"},
      {[](auto& ready) { ready.sample_count = 99; }, "has 99 samples for each epoch, the rest of the run 1000"},
      {[](auto& ready) { ready.state_layout_hash = 2; }, "shares different state than the rest of the run"}};
  for (const auto& [change, text] : refusals) CHECK(refusal_of(change).find(text) != std::string::npos);
  CHECK(refusal_of([](auto&) {}).empty());
  CHECK(refusal_of([](auto& ready) { ready.division = {.seed = 8}; }).empty());  // a library that does not say
}

TEST_CASE("a supervisor that takes over keeps the program's batch, also beside a policy's") {
  Scene first(of_program(1, 2));
  first.train(1, 2, 64);
  first.feed(UpdatePlan{.per_worker = 16, .reason = "noise"});
  Scene next(of_program(1, 2));
  next.feed(first.fold_.result());
  CHECK(next.machine_.view().batch.per_worker == 16);
  CHECK(next.machine_.view().base_batch == 64);
}

TEST_CASE("a user's size holds against a policy until it is given back") {
  Scene run(with_policy(2, 4));
  run.train(2, 4);
  run.feed(Resize{.request = 1, .target = 3});
  CHECK(run.last<Reply>()->text.find("resize auto") != std::string::npos);
  run.grow_to(3, 0);
  CHECK(run.machine_.view().held);
  CHECK(run.feed(by_policy(4)).empty());
  CHECK(run.machine_.view().target_size == 3);
  run.feed(Resize{.request = 2, .target = 0});
  CHECK(run.last<Reply>()->accepted);
  CHECK_FALSE(run.machine_.view().held);
  run.feed(by_policy(4));
  CHECK(run.machine_.view().target_size == 4);
}

TEST_CASE("a size that is held for a time goes back to the policy after it") {
  Scene run(with_policy(2, 4));
  run.train(2, 4);
  run.feed(Resize{.request = 1, .target = 2, .hold_for = Millis(60'000)});
  const std::uint64_t timer = run.newest_timer_;
  CHECK(run.machine_.view().held_left_ms == 60'000);
  run.feed(by_policy(4));
  CHECK(run.machine_.view().target_size == 2);
  run.now_ += Millis(60'000);
  run.feed(TimerFired{timer});
  CHECK_FALSE(run.machine_.view().held);
  run.feed(by_policy(4));
  CHECK(run.machine_.view().target_size == 4);
}

TEST_CASE("a held size is held by the supervisor that takes over") {
  Scene first(with_policy(2, 4));
  first.train(2, 4);
  first.feed(Resize{.request = 1, .target = 2});
  Scene next(with_policy(2, 4));
  next.feed(first.fold_.result());
  CHECK(next.machine_.view().held);
  first.feed(Resize{.request = 2, .target = 0});
  Scene later(with_policy(2, 4));
  later.feed(first.fold_.result());
  CHECK_FALSE(later.machine_.view().held);
}

TEST_CASE("without a policy nothing is held, and there is nothing to give the size back to") {
  Scene run(Scene::settings(2, 4));
  run.train(2, 4);
  run.feed(Resize{.request = 1, .target = 2});
  CHECK_FALSE(run.machine_.view().held);
  CHECK(run.last<Reply>()->text.find("held") == std::string::npos);
  run.feed(Resize{.request = 2, .target = 0});
  CHECK_FALSE(run.last<Reply>()->accepted);
}

TEST_CASE("a policy's resize undoes neither a user's replace nor a user's drain") {
  Scene run(with_policy(2, 4));
  run.feed(HostsOffered{{{"A", 2}, {"B", 2}}});
  run.feed(AgentConnected{AgentId{1}});
  run.feed(AgentConnected{AgentId{2}});
  run.ready(1);
  run.ready(2);
  run.prepared(1);
  run.active(1);
  run.feed(ReplaceWorker{.request = 1, .rank = 1});
  run.feed(by_policy(3));
  run.ready(3);
  run.grow_to(4, 0);
  const RunView replaced = run.machine_.view();
  for (const auto& worker : replaced.workers) {
    if (worker.phase == WorkerPhase::kMember) CHECK(worker.worker != WorkerId{2});
  }
  run.feed(DrainHost{.request = 2, .host = "A"});
  run.feed(by_policy(4));
  for (const auto& agent : run.machine_.view().agents)
    CHECK((agent.phase == AgentPhase::kDraining) == (agent.host == "A"));
}
