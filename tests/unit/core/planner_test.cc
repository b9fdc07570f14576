// The planner on rosters that are written down: it changes nothing, so equal states give equal answers.
#include "supervisor/core/reconciling.h"

#define DOCTEST_CONFIG_NO_SHORT_MACRO_NAMES
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "supervisor/core/pure/message_text.h"
#include "supervisor/core/run.h"

namespace elastictrain::core {
namespace {

RunSettings settings_of(std::uint32_t min, std::uint32_t max) {
  RunSettings settings;
  settings.min_workers = settings.start_workers = min;
  settings.max_workers = max;
  settings.batch.per_worker = 32;
  return settings;
}

// A run that trains: its hosts are up, and its workers are ready members in the order in which they were added.
struct Scene {
  explicit Scene(const RunSettings& settings) : run(settings, [] { return Token{}; }) {
    run.startup.hosts_known = run.startup.spawned = run.startup.elastic = true;
    run.training.generation = run.training.issued = 1;
  }

  AgentId host(const std::string& name, std::uint32_t slots) {
    Agent& agent = run.roster.add_agent(name, slots);
    agent.link = Link::kUp;
    agent.order = agent.id.value;
    return agent.id;
  }
  WorkerId start(AgentId agent, std::uint32_t slot) { return run.roster.add_worker({agent, slot}).id; }
  WorkerId ready(AgentId agent, std::uint32_t slot) {
    const WorkerId id = start(agent, slot);
    run.roster.worker(id)->contact = Contact::kReady;
    return id;
  }
  WorkerId member(AgentId agent, std::uint32_t slot) {
    const WorkerId id = ready(agent, slot);
    run.roster.worker(id)->take_assignment();
    std::vector<WorkerId> members = run.training.members;
    members.push_back(id);
    run.training.set_members(members);
    return id;
  }

  Run run;
};

std::vector<std::string> texts(const Run& run, const std::vector<Place>& places) {
  std::vector<std::string> list;
  for (Place place : places) list.push_back(run.roster.agent(place.agent)->host + ":" + std::to_string(place.slot));
  return list;
}

using Texts = std::vector<std::string>;

DOCTEST_TEST_CASE("the target is what is desired, within what the batch, a refusal and a lease allow") {
  Scene scene(settings_of(1, 8));
  Run& run = scene.run;
  run.desired.target = 6;
  DOCTEST_CHECK(target_size(run) == 6);
  DOCTEST_SUBCASE("a global batch of 128 samples is enough for four workers of 32") {
    run.settings.batch.max_global = 128;
    run.settings.batch.at_limit = AtLimit::kStop;
    DOCTEST_CHECK(size_limit(run) == 4);
    DOCTEST_CHECK(target_size(run) == 4);
    DOCTEST_CHECK(asked_size(run) == 6);
  }
  DOCTEST_SUBCASE("new workers could not join beyond three") {
    run.desired.refused = GrowRefusal{3, "they end"};
    DOCTEST_CHECK(target_size(run) == 3);
  }
  DOCTEST_SUBCASE("a cluster leases two slots") {
    run.settings.leased = true;
    run.desired.lease.slots = 2;
    DOCTEST_CHECK(target_size(run) == 2);
  }
  DOCTEST_SUBCASE("the last change was given up: nothing moves") {
    scene.member(scene.host("A", 2), 0);
    run.desired.hold = true;
    DOCTEST_CHECK(target_size(run) == 1);
  }
  DOCTEST_SUBCASE("a plain program has the processes that have not ended") {
    run.startup.elastic = false;
    run.startup.first_size = 4;
    run.startup.plain_finished = 1;
    DOCTEST_CHECK(target_size(run) == 3);
  }
}

DOCTEST_TEST_CASE("free slots: warm ones first, then hosts that have workers, then those that workers move away from") {
  Scene scene(settings_of(1, 8));
  Run& run = scene.run;
  const AgentId a = scene.host("A", 2);
  const AgentId b = scene.host("B", 2);
  const AgentId c = scene.host("C", 1);
  scene.member(b, 0);
  DOCTEST_CHECK(texts(run, free_places(run)) == Texts{"B:1", "A:0", "A:1", "C:0"});
  DOCTEST_SUBCASE("a warm process joins at once") {
    run.roster.agent(c)->warm.push_back({WorkerId{9}, 0});
    DOCTEST_CHECK(texts(run, free_places(run)) == Texts{"C:0", "B:1", "A:0", "A:1"});
  }
  DOCTEST_SUBCASE("workers of B are to go to other hosts") {
    run.desired.replacements[run.training.members.front()] = protocol::ChangeKind::kMigrate;
    DOCTEST_CHECK(texts(run, free_places(run)) == Texts{"A:0", "A:1", "C:0", "B:1"});
  }
  DOCTEST_SUBCASE("hosts that drain, that cannot be reached or that are not up have none") {
    run.roster.agent(a)->drain = true;
    run.roster.agent(b)->cut_off = true;
    DOCTEST_CHECK(texts(run, free_places(run)) == Texts{"C:0"});
  }
  DOCTEST_SUBCASE("a slot in which workers failed twice is used only where too few could train without it") {
    run.roster.blame({a, 0}, 2);
    DOCTEST_CHECK(texts(run, free_places(run)) == Texts{"B:1", "A:1", "C:0"});
    run.settings.min_workers = 5;
    DOCTEST_CHECK(texts(run, free_places(run)) == Texts{"B:1", "A:1", "C:0", "A:0"});
  }
}

DOCTEST_TEST_CASE("candidates: ready workers before those that start; none in the slot of a member that stays") {
  Scene scene(settings_of(1, 8));
  Run& run = scene.run;
  const AgentId a = scene.host("A", 4);
  const WorkerId member = scene.member(a, 0);
  const WorkerId starting = scene.start(a, 1);
  const WorkerId ready = scene.ready(a, 2);
  const WorkerId successor = scene.ready(a, 0);
  const auto ids = [&] {
    std::vector<WorkerId> list;
    for (const Candidate& candidate : candidates(run)) list.push_back(candidate.worker);
    return list;
  };
  DOCTEST_CHECK(ids() == std::vector<WorkerId>{ready, starting});
  run.desired.replacements[member] = protocol::ChangeKind::kReplace;
  DOCTEST_CHECK(ids() == std::vector<WorkerId>{ready, successor, starting});
  DOCTEST_CHECK(!candidates(run)[1].may_wait);  // two in a slot: it joins or goes
  run.roster.worker(ready)->order_end(EndOrder::kDismiss);
  DOCTEST_CHECK(ids() == std::vector<WorkerId>{successor, starting});
}

DOCTEST_TEST_CASE("a worker gives its slot back when its host or slot goes, not while slots are exchanged") {
  Scene scene(settings_of(1, 8));
  Run& run = scene.run;
  const AgentId a = scene.host("A", 2);
  const Worker& worker = *run.roster.worker(scene.member(a, 1));
  DOCTEST_CHECK(!is_displaced(run, worker));
  run.roster.agent(a)->only = {0};
  DOCTEST_CHECK(is_displaced(run, worker));
  DOCTEST_CHECK(gives_back(run, worker));
  run.settings.leased = run.desired.lease.moves = true;
  DOCTEST_CHECK(is_displaced(run, worker));
  DOCTEST_CHECK(!gives_back(run, worker));
  run.roster.agent(a)->drain = true;  // its host goes whatever the cluster says
  DOCTEST_CHECK(gives_back(run, worker));
}

DOCTEST_TEST_CASE("a replaced worker shares its slot with its successor, unless its device is more than half full") {
  Scene scene(settings_of(1, 8));
  Run& run = scene.run;
  const AgentId a = scene.host("A", 3);
  const WorkerId first = scene.member(a, 0);
  const WorkerId second = scene.member(a, 1);
  run.desired.replacements[second] = protocol::ChangeKind::kReplace;
  auto& device = run.roster.worker(second)->heartbeat.device;
  const auto shown = [&] {
    const CurrentMember member = swap_input(run).members[1];
    return std::make_pair(member.can_overlap, member.leaves_first);
  };
  DOCTEST_CHECK(shown() == std::make_pair(true, false));  // on a CPU
  device = {.total_bytes = 80, .free_bytes = 40};
  DOCTEST_CHECK(shown() == std::make_pair(true, false));
  device.free_bytes = 39;
  DOCTEST_CHECK(shown() == std::make_pair(false, true));
  DOCTEST_CHECK(!swap_input(run).members[0].leaves_first);  // nobody asked for it
  const WorkerId leaver = scene.ready(a, 2);
  run.roster.worker(leaver)->order_end(EndOrder::kDismiss);
  DOCTEST_CHECK(shown() == std::make_pair(false, false));  // one after the other
  const SwapDecision decision{.stay = {first}, .leave = {second}, .makes_room = second};
  DOCTEST_CHECK(describe_change(run, decision, 1).reason ==
                "replace rank 1 (w2 on A), from 2 to 1 workers; its device has no memory for two, so its successor "
                "starts when it has left");
}

DOCTEST_TEST_CASE("a change is described by what makes it") {
  Scene scene(settings_of(1, 8));
  Run& run = scene.run;
  const AgentId a = scene.host("A", 2);
  const AgentId b = scene.host("B", 2);
  const WorkerId first = scene.member(a, 0);
  const WorkerId second = scene.member(b, 0);
  run.desired.target_reason = "requested by the user";
  const auto described = [&](const SwapDecision& decision, std::size_t size) {
    const ChangeDescription found = describe_change(run, decision, size);
    return std::string(change_name(found.kind)) + ": " + found.reason;
  };
  SwapDecision both{.stay = {first, second}};
  DOCTEST_CHECK(described(both, 3) == "grow: grow from 2 to 3 workers: requested by the user");
  run.training.size_before_loss = 3;
  DOCTEST_CHECK(described(both, 3) == "grow: grow from 2 to 3 workers: in place of those that were lost");
  run.desired.update_reason = "sum along ring: requested by the user";
  DOCTEST_CHECK(described(both, 2) == "update: sum along ring: requested by the user");
  SwapDecision one{.stay = {first}, .leave = {second}};
  DOCTEST_CHECK(described(one, 1) == "shrink: shrink from 2 to 1 workers: requested by the user");
  run.desired.replacements[second] = protocol::ChangeKind::kReplace;
  DOCTEST_CHECK(described(one, 2) == "replace: replace rank 1 (w2 on B)");
  run.desired.replacements.clear();
  run.roster.agent(b)->drain = true;
  DOCTEST_CHECK(described(one, 1) == "drain: leave B, from 2 to 1 workers");
  run.settings.leased = true;
  run.desired.lease = {.version = 3, .slots = 1, .reason = "j2 has waited longest"};
  DOCTEST_CHECK(described(one, 1) == "shrink: give back slots of B, from 2 to 1 workers: j2 has waited longest");
}

DOCTEST_TEST_CASE("what cannot be reached now is said with what hinders it") {
  Scene scene(settings_of(2, 8));
  Run& run = scene.run;
  const WorkerId only = scene.member(scene.host("A", 1), 0);
  run.desired.target = 3;
  const SwapDecision decision{.stay = {only}, .held = {only}};
  DOCTEST_CHECK(unmet_text(run, decision, 3) ==
                "3 workers are requested and 1 can train: no other slot is free. The rest follows when hosts appear or "
                "you repeat the request. rank 0 (w1 on A) stays although its host goes away: at least 2 workers must "
                "train.");
  const SwapDecision met{.stay = {only}};
  DOCTEST_CHECK(unmet_text(run, met, 1) == "3 workers are requested, but the limit of the global batch allows 1");
  run.desired.refused = GrowRefusal{1, "w7 on A ended"};
  DOCTEST_CHECK(unmet_text(run, met, 1) ==
                "3 workers are requested, and 1 train: grow refused: w7 on A ended. `elastictrain resize` tries it "
                "again.");
}

}  // namespace
}  // namespace elastictrain::core
