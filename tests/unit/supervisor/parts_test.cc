#include <doctest/doctest.h>

#include <algorithm>

#include "supervisor/control/control_request.h"
#include "supervisor/progress.h"
#include "supervisor/protocol/codec.h"
#include "supervisor/recovery_log.h"
#include "supervisor/rejections.h"
#include "supervisor/relay_frame.h"
#include "supervisor/worker_program.h"
#include "supervisor/worker_table.h"
#include "tests/support/in_a_process.h"

namespace elastictrain {
namespace {

bool has(const std::vector<std::string>& environment, const std::string& entry) {
  return std::find(environment.begin(), environment.end(), entry) != environment.end();
}

core::SpawnWorker spawn_of(std::uint32_t rank, std::uint32_t local, std::uint32_t world, std::uint32_t local_world,
                           std::uint32_t node) {
  return {WorkerId{rank + 1}, AgentId{node + 1}, "host", local, local_world, rank, local, world, local_world, node};
}

TEST_CASE("a worker's environment has torch's names and ours") {
  WorkerSurroundings around;
  around.run_name = "job";
  around.generation = 3;
  around.node_count = 2;
  around.master_address = "10.0.0.1";
  around.master_port = 4711;
  const auto environment = worker_environment(spawn_of(5, 1, 8, 4, 1), around);
  for (const char* entry : {"RANK=5",
                            "LOCAL_RANK=1",
                            "WORLD_SIZE=8",
                            "LOCAL_WORLD_SIZE=4",
                            "GROUP_RANK=1",
                            "GROUP_WORLD_SIZE=2",
                            "NODE_RANK=1",
                            "MASTER_ADDR=10.0.0.1",
                            "MASTER_PORT=4711",
                            "TORCHELASTIC_RUN_ID=job",
                            "ROLE_RANK=5",
                            "ROLE_WORLD_SIZE=8",
                            "TORCHELASTIC_RESTART_COUNT=0",
                            "TORCHELASTIC_MAX_RESTARTS=0",
                            "ELASTICTRAIN_JOB_ID=job",
                            "ELASTICTRAIN_GENERATION=3",
                            "ELASTICTRAIN_WORKER_ID=6",
                            "ELASTICTRAIN_SLOT=1",
                            "ELASTICTRAIN_SLOTS=4",
                            "ELASTICTRAIN_ROLE=worker",
                            "OMP_NUM_THREADS=1"}) {
    CHECK_MESSAGE(has(environment, entry), entry);
  }
}

TEST_CASE("a worker that begins with a checkpoint learns which generations count, whatever the user set") {
  core::SpawnWorker spawn = spawn_of(0, 0, 1, 1, 0);
  WorkerSurroundings around;
  around.user_environment = {"ELASTICTRAIN_LINEAGE=mine"};
  around.restarts = 2;
  around.max_restarts = 10;
  auto environment = worker_environment(spawn, around);
  CHECK(std::count(environment.begin(), environment.end(), "ELASTICTRAIN_RESUME=1") == 0);
  CHECK(std::count(environment.begin(), environment.end(), "TORCHELASTIC_RESTART_COUNT=2") == 1);
  CHECK(std::count(environment.begin(), environment.end(), "TORCHELASTIC_MAX_RESTARTS=10") == 1);
  spawn.from_checkpoint = true;
  spawn.lineage = {{3, 1}, {5, 120}};
  environment = worker_environment(spawn, around);
  CHECK(std::count(environment.begin(), environment.end(), "ELASTICTRAIN_RESUME=1") == 1);
  CHECK(environment.back() == "ELASTICTRAIN_LINEAGE=3:1,5:120");
}

TEST_CASE("OMP_NUM_THREADS is left alone when the user chose it or the worker is alone on its host") {
  WorkerSurroundings around;
  CHECK(!has(worker_environment(spawn_of(0, 0, 1, 1, 0), around), "OMP_NUM_THREADS=1"));
  CHECK(has(worker_environment(spawn_of(0, 0, 2, 2, 0), around), "OMP_NUM_THREADS=1"));
  around.omp_threads_chosen = true;
  CHECK(!has(worker_environment(spawn_of(0, 0, 2, 2, 0), around), "OMP_NUM_THREADS=1"));
  around.omp_threads_chosen = false;
  around.user_environment = {"OMP_NUM_THREADS=6"};
  const auto environment = worker_environment(spawn_of(0, 0, 2, 2, 0), around);
  CHECK(!has(environment, "OMP_NUM_THREADS=1"));
  CHECK(environment.back() == "OMP_NUM_THREADS=6");
}

TEST_CASE("a relayed message has the bytes of the whole message") {
  protocol::GenerationPlan plan;
  plan.generation = 7;
  plan.reason = "grow";
  for (std::uint32_t i = 0; i < 300; ++i) plan.members.push_back({WorkerId{i + 1}, i, i % 8, "host", {}, 32, false});
  const std::vector<protocol::WorkerDown> messages = {protocol::Prepare{plan}, protocol::Commit{9}, protocol::Cancel{2},
                                                      protocol::Dismiss{"done"}};
  for (const auto& message : messages) {
    const RelayFrame frame(message);
    for (const std::vector<WorkerId>& workers :
         {std::vector<WorkerId>{}, {WorkerId{1}}, {WorkerId{70'000}, WorkerId{3}}}) {
      CHECK(frame.to(workers) == protocol::encode_frame(protocol::AgentDown(protocol::ToWorkers{workers, message})));
    }
  }
}

TEST_CASE("requests become events with their id; anything else is refused with a message") {
  const auto resize = control::parse_request(R"({"command":"resize","workers":4})", 11);
  REQUIRE(resize.ok());
  const auto& event = std::get<core::Resize>(std::get<core::Event>(*resize));
  CHECK(event.request == 11);
  CHECK(event.target == 4);
  CHECK(std::holds_alternative<control::StatusRequest>(*control::parse_request(R"({"command":"status"})", 1)));
  CHECK(
      std::holds_alternative<control::StopNowRequest>(*control::parse_request(R"({"command":"stop","now":true})", 1)));
  const auto host = control::parse_request(R"({"command":"replace","host":"n3"})", 1);
  CHECK(std::get<core::ReplaceHost>(std::get<core::Event>(*host)).host == "n3");
  const auto again = control::parse_request(R"({"command":"undrain","host":"n3"})", 1);
  CHECK(std::get<core::UndrainHost>(std::get<core::Event>(*again)).host == "n3");
  for (const char* bad :
       {"", "{", "7", R"({"command":7})", R"({"command":"resize","workers":4.5})",
        R"({"command":"resize","workers":99999999999})", R"({"command":"replace"})", R"({"command":"drain","host":""})",
        R"({"command":"undrain"})", R"({"command":"stop","now":1})", "\xff\xfe"}) {
    CHECK_MESSAGE(!control::parse_request(bad, 1).ok(), bad);
  }
  CHECK(!control::parse_request(std::string(60'000, '['), 1).ok());
}

TEST_CASE("ranks change at the commit, and a leaver keeps its own for what it still writes") {
  WorkerTable table;
  for (std::uint32_t rank = 0; rank < 3; ++rank) table.spawned(spawn_of(rank, rank, 2, 3, 0), true);
  CHECK(table.find(WorkerId{2})->rank == 1);
  CHECK(table.find(WorkerId{3})->rank == -1);  // a spare: its rank is beyond the world
  protocol::GenerationPlan plan;
  plan.generation = 1;
  plan.members = {{WorkerId{2}, 0, 0, "host", {}, 1, false}, {WorkerId{3}, 1, 1, "host", {}, 1, true}};
  table.planned(plan);
  CHECK(table.find(WorkerId{3})->rank == -1);
  table.committed(2);
  CHECK(table.generation() == 0);
  table.committed(1);
  CHECK(table.find(WorkerId{2})->rank == 0);
  CHECK(table.find(WorkerId{3})->rank == 1);
  CHECK(table.find(WorkerId{1})->rank == 0);
  CHECK(table.agent_of_rank_zero() == AgentId{1});
  table.remove_all_of(AgentId{1});
  CHECK(table.find(WorkerId{2}) == nullptr);
}

protocol::WorkerHeartbeat rank_beat(Generation generation, Step step) {
  protocol::WorkerHeartbeat heartbeat;
  heartbeat.generation = generation;
  heartbeat.step = step;
  heartbeat.steps = 5;
  heartbeat.mean.step_us = 50'000;
  return heartbeat;
}

protocol::GenerationPlan plan_of(Generation generation, Generation previous) {
  protocol::GenerationPlan plan;
  plan.generation = generation;
  plan.previous = previous;
  for (const std::uint32_t id : {1U, 2U, 3U}) plan.members.push_back({.worker = WorkerId{id}, .joiner = id == 3U});
  return plan;
}

TEST_CASE("the table of a run that is taken over has ranks at once, and process ids when workers speak") {
  core::Resumed resumed;
  resumed.agents = {{AgentId{1}, "one", 2, false}, {AgentId{4}, "two", 2, false}};
  resumed.workers = {{WorkerId{7}, AgentId{4}, 1}, {WorkerId{2}, AgentId{1}, 0}, {WorkerId{9}, AgentId{4}, 0}};
  resumed.generation = 6;
  resumed.members = {WorkerId{2}, WorkerId{7}};
  WorkerTable table;
  table.restore(resumed);
  CHECK(table.generation() == 6);
  CHECK(table.find(WorkerId{7})->rank == 1);
  CHECK(table.find(WorkerId{7})->host == "two");
  CHECK(table.find(WorkerId{9})->rank == -1);
  CHECK(table.agent_of_rank_zero() == AgentId{1});
  CHECK(table.agents_on("two") == std::set<AgentId>{AgentId{4}});
  table.set_pid(WorkerId{7}, 100);
  table.adopt_pid(WorkerId{7}, 200);
  CHECK(table.find(WorkerId{7})->pid == 100);
}

TEST_CASE("a worker that is started twice and a generation that falls end the process") {
  CHECK(test::in_a_process([] {
          WorkerTable table;
          table.spawned(spawn_of(0, 0, 1, 1, 0), true);
          table.spawned(spawn_of(0, 0, 1, 1, 1), true);
        }).violated("a worker is started once"));
  CHECK(test::in_a_process([] {
          WorkerTable table;
          protocol::GenerationPlan plan;
          for (const Generation generation : {Generation{4}, Generation{3}}) {
            plan.generation = generation;
            table.planned(plan);
          }
        }).violated("generations only rise"));
}

TEST_CASE("recoveries are counted with their reason and idle time, as the journal tells them") {
  RecoveryLog log;
  log.take(core::record::Commit{2, 3, "growing"}, 7);
  log.take(core::record::GenerationComplete{2, protocol::ChangeKind::kGrow}, 7);
  CHECK(log.count() == 0);
  REQUIRE(log.last_change());
  CHECK(log.last_change()->reason == "growing");
  log.take(core::record::Commit{4, 2, "rank 1 was killed"}, 7);
  log.take(core::record::GenerationComplete{4, protocol::ChangeKind::kRecover}, 9.5);
  REQUIRE(log.last());
  CHECK(log.last()->reason == "rank 1 was killed");
  CHECK(!log.last()->idle_s);
  CHECK(log.last_change()->reason == "rank 1 was killed");
  CHECK(log.last_change()->up_s == 9.5);
  log.take(core::record::Idle{2, 900}, 7);
  log.take(core::record::Idle{4, 12}, 7);
  CHECK(log.count() == 1);
  CHECK(*log.last()->idle_s == doctest::Approx(0.012));
}

TEST_CASE("the time that is left follows from the epochs or the steps of the program and the present speed") {
  protocol::WorkerHeartbeat newest = rank_beat(2, 100);
  core::RunView run;
  run.global_batch = 64;
  CHECK(!time_left_s(newest, run));  // no length
  run.epochs = 4;
  run.epoch_samples = 1000;
  CHECK(!time_left_s(newest, run));  // no speed yet
  newest.samples_per_s = 100;
  newest.epoch = 1;
  newest.epoch_fraction = 0.5;
  CHECK(*time_left_s(newest, run) == doctest::Approx(25));
  run.max_steps = 110;
  CHECK(*time_left_s(newest, run) == doctest::Approx(6.4));
  newest.step = 200;
  CHECK(*time_left_s(newest, run) == 0);
}

TEST_CASE("idle time is the shortest gap of the survivors less a step of the same one") {
  IdleTimes times;
  times.planned(plan_of(2, 1));
  CHECK(!times.committed(2));
  CHECK(!times.last_s());
  CHECK(!times.measured(WorkerId{1}, {2, 400'000, 250'000}));
  CHECK(!times.measured(WorkerId{3}, {2, 10'000, 250'000}));
  CHECK(!times.measured(WorkerId{2}, {1, 10'000, 250'000}));
  const auto idle = times.measured(WorkerId{2}, {2, 300'000, 260'000});
  REQUIRE(idle);
  CHECK(idle->generation == 2);
  CHECK(idle->seconds == doctest::Approx(0.040));
  CHECK(times.last_s() == idle->seconds);
  CHECK(!times.measured(WorkerId{1}, {2, 10'000, 0}));
  CHECK(!times.close());
}

TEST_CASE("a change stays open while the next one is made, and closes with what there is after that or at the end") {
  IdleTimes times;
  times.planned(plan_of(1, 0));
  CHECK(!times.committed(1));
  times.planned(plan_of(2, 1));
  CHECK(!times.committed(2));
  times.measured(WorkerId{1}, {2, 300'000, 250'000});
  times.planned(plan_of(3, 2));
  CHECK(!times.committed(3));
  const auto second = times.measured(WorkerId{2}, {2, 280'000, 250'000});
  REQUIRE(second);
  CHECK(second->generation == 2);
  CHECK(second->seconds == doctest::Approx(0.030));
  CHECK(!times.last_s());  // of the newest change nothing is known yet
  times.measured(WorkerId{2}, {3, 200'000, 250'000});
  times.planned(plan_of(4, 3));
  CHECK(!times.committed(4));
  const auto third = times.close();
  REQUIRE(third);
  CHECK(third->generation == 3);
  CHECK(third->seconds == 0);
  CHECK(!times.close());
  CHECK(times.total_s() == doctest::Approx(0.030));
}

TEST_CASE("stale and idle heartbeats change no figure") {
  Progress progress;
  progress.on_heartbeat(rank_beat(2, 50));
  progress.on_heartbeat(rank_beat(1, 90));
  progress.on_heartbeat(rank_beat(2, 40));
  progress.on_heartbeat(rank_beat(0, 0));
  CHECK(progress.newest().step == 50);
  CHECK(progress.newest().generation == 2);
}

TEST_CASE("a step that was said last has no loss before its heartbeat") {
  Progress progress;
  protocol::WorkerHeartbeat beat = rank_beat(2, 50);
  beat.loss = 0.5;
  progress.on_heartbeat(beat);
  CHECK(progress.loss() == 0.5);
  progress.on_last_step(53);
  progress.on_last_step(52);
  CHECK(progress.step() == 53);
  CHECK(progress.loss() == 0);
  beat.step = 53;
  beat.loss = 0.25;
  progress.on_heartbeat(beat);
  CHECK(progress.loss() == 0.25);
}

TEST_CASE("a flood of refused connections is reported as a few and a number") {
  std::vector<std::uint64_t> times;
  Rejections rejections([&](const std::string&, const std::string&, std::uint64_t n) { times.push_back(n); });
  for (int i = 0; i < 1'000; ++i) rejections.add("127.0.0.1:1", "why");
  rejections.end_period();
  rejections.end_period();
  CHECK(times == std::vector<std::uint64_t>{1, 1, 1, 1, 1, 995});
}

}  // namespace
}  // namespace elastictrain
