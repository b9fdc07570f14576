#include "supervisor/journal_replay.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <type_traits>

#include "supervisor/audit_file.h"
#include "supervisor/protocol/json_text.h"
#include "supervisor/protocol/names.h"

namespace elastictrain {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostLineage = 256;

// Larger numbers are damage: no run reaches them, and the numbers after them must still fit their type.
constexpr std::uint64_t kMostNumber = std::uint64_t{1} << 53;
constexpr std::uint32_t kMostSmall = std::uint32_t{1} << 31;

template <class Number>
void skip(Number& used, std::uint64_t lost) {
  if (used < kMostSmall) used += static_cast<Number>(std::min<std::uint64_t>(lost, kMostSmall));
}

}  // namespace

// One line, read defensively: a field that is missing, damaged or of another type has its default.
class JournalReplay::Record {
 public:
  explicit Record(Json json) : json_(std::move(json)) {}

  std::uint64_t number(const char* name) const {
    const auto found = json_.find(name);
    if (found == json_.end() || !found->is_number_unsigned()) return 0;
    const auto value = found->get<std::uint64_t>();
    return value <= kMostNumber ? value : 0;
  }
  std::uint32_t small(const char* name) const { return to_small(number(name)); }
  double real(const char* name, double otherwise) const {
    const auto found = json_.find(name);
    return found != json_.end() && found->is_number() ? found->get<double>() : otherwise;
  }
  std::string text(const char* name) const {
    const auto found = json_.find(name);
    return found != json_.end() && found->is_string() ? found->get<std::string>() : std::string();
  }
  bool flag(const char* name) const {
    const auto found = json_.find(name);
    return found != json_.end() && found->is_boolean() && found->get<bool>();
  }
  bool has(const char* name) const { return json_.contains(name); }
  std::vector<std::uint32_t> numbers(const char* name) const {
    std::vector<std::uint32_t> list;
    const auto found = json_.find(name);
    if (found == json_.end() || !found->is_array()) return list;
    for (const Json& value : *found) {
      if (value.is_number_unsigned()) list.push_back(to_small(value.get<std::uint64_t>()));
    }
    return list;
  }
  std::vector<std::string> texts(const char* name) const {
    std::vector<std::string> list;
    const auto found = json_.find(name);
    if (found == json_.end() || !found->is_array()) return list;
    for (const Json& value : *found) {
      if (value.is_string()) list.push_back(value.get<std::string>());
    }
    return list;
  }
  std::vector<WorkerId> workers(const char* name) const {
    std::vector<WorkerId> list;
    for (std::uint32_t id : numbers(name)) list.push_back(WorkerId{id});
    return list;
  }
  WorkerId worker() const { return WorkerId{small("worker")}; }
  AgentId agent() const { return AgentId{small("agent")}; }
  Generation generation() const { return number("generation"); }
  protocol::Synchronization synchronization(const char* name) const {
    return protocol::synchronization_named(text(name)).value_or(protocol::Synchronization::kGradients);
  }
  core::Reshare reshared() const {
    core::Reshare wished;
    if (small("per_worker") != 0) wished.per_worker = small("per_worker");
    if (has("wished_factor")) wished.learning_rate_factor = real("wished_factor", 1.0);
    if (has("wished_noise_scale")) wished.noise_scale = real("wished_noise_scale", 0.0);
    wished.topology = protocol::topology_named(text("wished_topology"));
    if (has("wished_fathers")) wished.fathers = numbers("wished_fathers");
    wished.synchronization = protocol::synchronization_named(text("wished_synchronization"));
    return wished;
  }

 private:
  static std::uint32_t to_small(std::uint64_t number) {
    return number <= kMostSmall ? static_cast<std::uint32_t>(number) : 0;
  }
  Json json_;
};

const std::map<std::string_view, JournalReplay::Handler>& JournalReplay::handlers() {
  using R = JournalReplay;
  static const std::map<std::string_view, Handler> table{
      {"run_opened", &R::opened},
      {"run_resumed", &R::resumed},
      {"host_offered", &R::host_offered},
      {"host_again", &R::host_offered},
      {"host_slots", &R::host_slots},
      {"host_vanished", &R::host_vanished},
      {"host_back", &R::host_back},
      {"notice", &R::host_noticed},
      {"agent_connected", &R::agent_connected},
      {"agent_lost", &R::agent_gone},
      {"agent_ended", &R::agent_gone},
      {"host_released", &R::agent_gone},
      {"spawn", &R::spawned},
      {"exited", &R::worker_gone},
      {"spawn_failed", &R::worker_gone},
      {"spawn_lost", &R::worker_gone},
      {"vanished", &R::worker_gone},
      {"finished", &R::finished},
      {"resize_requested", &R::requested},
      {"drain_requested", &R::requested},
      {"accepted", &R::accepted},
      {"refused", &R::refused},
      {"target", &R::retargeted},
      {"reshared", &R::reshared},
      {"prepare", &R::prepared},
      {"cancel", &R::cancelled},
      {"commit", &R::committed},
      {"active", &R::active},
      {"generation", &R::completed},
      {"given_up", &R::given_up},
      {"abort", &R::fenced},
      {"halt_settled", &R::halt_settled},
      {"state_lost", &R::state_lost},
      {"journal_gap", &R::gap},
      {"run_state", &R::whole_state},
      {"end", &R::end},
      {"run_closed", &R::end},
  };
  return table;
}

void JournalReplay::take(std::string_view line) {
  if (line.empty()) return;
  Json json = parse_json(line);
  const auto event = json.is_object() ? json.find("event") : json.end();
  if (!json.is_object() || event == json.end() || !event->is_string()) {
    ++unreadable_;
    return;
  }
  ++records_;
  const auto handler = handlers().find(event->get_ref<const std::string&>());
  if (handler != handlers().end()) (this->*handler->second)(Record(std::move(json)));
}

void JournalReplay::opened(const Record& record) {
  state_ = State{};
  state_.target = record.small("start_workers");
}

// `anew`: no agent or worker of the previous supervisor is left.
void JournalReplay::resumed(const Record& record) {
  state_.ended = false;
  if (!record.flag("anew")) return;
  state_.agents.clear();
  state_.workers.clear();
  state_.finished.clear();
}

void JournalReplay::host_offered(const Record& record) {
  const AgentId id = record.agent();
  if (id.value == 0) return;
  state_.agents[id] = {record.text("host"), record.small("slots")};
  state_.last_agent = std::max(state_.last_agent, id.value);
}

// The newest: an older agent of the host was told to stop, or is lost.
JournalReplay::Agent* JournalReplay::agent_on(const std::string& host, AgentId* id) {
  const auto found = std::find_if(state_.agents.rbegin(), state_.agents.rend(),
                                  [&](const auto& entry) { return entry.second.host == host; });
  if (found == state_.agents.rend()) return nullptr;
  if (id != nullptr) *id = found->first;
  return &found->second;
}

void JournalReplay::host_slots(const Record& record) {
  if (Agent* agent = agent_on(record.text("host"))) agent->slots = record.small("slots");
}

// An agent that had not connected yet is not waited for.
void JournalReplay::host_vanished(const Record& record) {
  AgentId id;
  const Agent* agent = agent_on(record.text("host"), &id);
  if (agent != nullptr && !agent->connected) state_.agents.erase(id);
}

void JournalReplay::host_back(const Record& record) {
  if (Agent* agent = agent_on(record.text("host"))) agent->drain = false;
}

void JournalReplay::host_noticed(const Record& record) {
  const auto found = state_.agents.find(record.agent());
  if (found != state_.agents.end()) found->second.drain = true;
}

void JournalReplay::agent_connected(const Record& record) {
  const auto found = state_.agents.find(record.agent());
  if (found != state_.agents.end()) found->second.connected = true;
}

void JournalReplay::agent_gone(const Record& record) {
  const AgentId id = record.agent();
  state_.agents.erase(id);
  std::erase_if(state_.workers, [&](const auto& entry) { return entry.second.agent == id; });
}

void JournalReplay::spawned(const Record& record) {
  core::Resumed::WorkerPlace worker{record.worker(), record.agent(), record.small("slot")};
  if (!record.has("agent")) agent_on(record.text("host"), &worker.agent);
  if (worker.worker.value == 0) return;
  state_.last_worker = std::max<std::uint64_t>(state_.last_worker, worker.worker.value);
  if (state_.agents.contains(worker.agent)) state_.workers[worker.worker] = worker;
}

void JournalReplay::worker_gone(const Record& record) {
  state_.workers.erase(record.worker());
}

void JournalReplay::finished(const Record& record) {
  state_.finished.insert(record.worker());
}

void JournalReplay::requested(const Record& record) {
  state_.requests[record.number("request")] = {record.small("target"), record.text("reason"), record.text("host")};
}

void JournalReplay::accepted(const Record& record) {
  const auto found = state_.requests.find(record.number("request"));
  if (found == state_.requests.end()) return;
  const Request request = std::move(found->second);
  state_.requests.erase(found);
  if (request.target != 0) {
    state_.target = request.target;
    state_.target_reason = request.reason.empty() ? "requested by the user" : request.reason;
  } else if (Agent* agent = agent_on(request.host)) {
    agent->drain = true;
  }
}

void JournalReplay::refused(const Record& record) {
  state_.requests.erase(record.number("request"));
}

void JournalReplay::retargeted(const Record& record) {
  state_.target = record.small("target");
  state_.target_reason = record.text("reason");
}

void JournalReplay::reshared(const Record& record) {
  state_.reshared = record.reshared();
}

void JournalReplay::prepared(const Record& record) {
  const Generation generation = record.generation();
  Plan& plan = state_.plans[generation];
  plan.members = record.workers("members");
  plan.shares = record.numbers("shares");
  plan.learning_rate_factor = record.real("learning_rate_factor", 1.0);
  plan.synchronization = record.synchronization("synchronization");
  if (record.has("fence")) plan.first_step = record.number("resume_step") + 1;
  state_.issued = std::max(state_.issued, generation);
  state_.open_plan = true;
}

void JournalReplay::cancelled(const Record& record) {
  state_.plans.erase(record.generation());
  state_.open_plan = false;
}

void JournalReplay::committed(const Record& record) {
  state_.committed = record.generation();
  state_.open_plan = false;
}

void JournalReplay::active(const Record& record) {
  const Step first_step = record.number("first_step");
  remember(record.generation(), first_step);
  const auto found = state_.plans.find(record.generation());
  if (found != state_.plans.end() && found->second.first_step == 0) found->second.first_step = first_step;
}

// A change that was adopted, but is not known to have begun a step, fences nothing out.
void JournalReplay::remember(Generation generation, Step first_step) {
  if (first_step == 0) return;
  if (!state_.lineage.empty() && state_.lineage.back().generation >= generation) return;
  state_.lineage.push_back({generation, first_step});
  if (state_.lineage.size() > kMostLineage) state_.lineage.erase(state_.lineage.begin());
}

void JournalReplay::completed(const Record& record) {
  const Generation generation = record.generation();
  Plan plan = state_.plans[generation];
  plan.members = record.workers("members");
  const Step first_step = record.has("first_step") ? record.number("first_step") : plan.first_step;
  if (!plan.members.empty()) remember(generation, first_step);
  state_.now = std::move(plan);
  state_.generation = generation;
  state_.issued = std::max(state_.issued, generation);
  state_.committed.reset();
  state_.plans.clear();
  state_.open_plan = false;
  state_.open_fence = false;
  state_.gap = false;
}

void JournalReplay::given_up(const Record&) {
  state_.target = static_cast<std::uint32_t>(state_.now.members.size());
  state_.target_reason = "the last change was given up";
}

void JournalReplay::fenced(const Record& record) {
  state_.issued = std::max(state_.issued, record.number("fence"));
  state_.open_fence = true;
  state_.open_plan = false;
  state_.halted = record.workers("members");
}

// Some workers had adopted a change before the fence ended it, so it was a generation after all.
void JournalReplay::halt_settled(const Record& record) {
  const Generation generation = record.generation();
  if (generation > state_.generation) {
    const auto found = state_.plans.find(generation);
    if (found != state_.plans.end()) {
      remember(generation, found->second.first_step);
      state_.now = found->second;
    }
    state_.generation = generation;
  }
  state_.committed.reset();
}

void JournalReplay::state_lost(const Record&) {
  state_.generation = 0;
  state_.now = Plan{};
  state_.committed.reset();
  state_.open_fence = false;
}

// A full disk lost these records: numbers that they issued must not be issued again, and every worker must report its
// position.
void JournalReplay::gap(const Record& record) {
  const std::uint64_t lost = record.number("lost");
  skip(state_.last_agent, lost);
  skip(state_.last_worker, lost);
  skip(state_.issued, lost);
  state_.gap = true;
}

// The content of the missing records.
void JournalReplay::whole_state(const Record& record) {
  if (!record.has("issued")) return;
  State state;
  state.generation = record.generation();
  state.issued = record.number("issued");
  state.now = {record.workers("members"), record.numbers("shares"), record.real("learning_rate_factor", 1.0),
               record.synchronization("synchronization"), 0};
  const auto finished = record.workers("finished");
  state.finished = {finished.begin(), finished.end()};
  state.target = record.small("target");
  state.target_reason = record.text("target_reason");
  state.reshared = record.reshared();
  state.last_agent = record.small("last_agent");
  state.last_worker = record.small("last_worker");
  take_roster(record, state);
  state.open_fence = record.has("fence");
  state.halted = record.workers("halted");
  if (const Generation plan = record.number("plan"); plan != 0) {
    state.plans[plan] = {record.workers("plan_members"), record.numbers("plan_shares"), record.real("plan_factor", 1.0),
                         record.synchronization("plan_synchronization"), record.number("plan_first_step")};
    state.open_plan = !record.flag("committed");
    if (record.flag("committed")) state.committed = plan;
  }
  state_ = std::move(state);
  const auto generations = record.numbers("lineage");
  const auto first_steps = record.numbers("first_steps");
  for (std::size_t i = 0; i < std::min(generations.size(), first_steps.size()); ++i) {
    remember(generations[i], first_steps[i]);
  }
}

void JournalReplay::take_roster(const Record& record, State& state) {
  const auto agents = record.numbers("agents");
  const auto hosts = record.texts("hosts");
  const auto slots = record.numbers("slots");
  for (std::size_t i = 0; i < std::min({agents.size(), hosts.size(), slots.size()}); ++i) {
    state.agents[AgentId{agents[i]}] = {hosts[i], slots[i]};
  }
  for (const auto& [name, flag] : {std::pair("connected", &Agent::connected), std::pair("draining", &Agent::drain)}) {
    for (std::uint32_t id : record.numbers(name)) {
      if (const auto found = state.agents.find(AgentId{id}); found != state.agents.end()) found->second.*flag = true;
    }
  }
  const auto workers = record.workers("workers");
  const auto homes = record.numbers("worker_agents");
  const auto places = record.numbers("worker_slots");
  for (std::size_t i = 0; i < std::min({workers.size(), homes.size(), places.size()}); ++i) {
    if (state.agents.contains(AgentId{homes[i]})) {
      state.workers[workers[i]] = {workers[i], AgentId{homes[i]}, places[i]};
    }
  }
}

void JournalReplay::end(const Record&) {
  state_.ended = true;
}

// A damaged record may name ids that no other record issued; an id that was named is not issued again.
void JournalReplay::raise_highest(core::Resumed& resumed) const {
  const auto raise = [](auto& highest, std::uint64_t number) {
    highest = static_cast<std::decay_t<decltype(highest)>>(std::max<std::uint64_t>(highest, number));
  };
  const auto raise_workers = [&](const auto& ids) {
    for (const WorkerId id : ids) raise(resumed.last_worker, id.value);
  };
  raise(resumed.issued, resumed.generation);
  if (!state_.plans.empty()) raise(resumed.issued, state_.plans.rbegin()->first);
  raise(resumed.issued, state_.committed.value_or(0));
  if (!resumed.lineage.empty()) raise(resumed.issued, resumed.lineage.back().generation);
  if (!state_.agents.empty()) raise(resumed.last_agent, state_.agents.rbegin()->first.value);
  if (!state_.workers.empty()) raise(resumed.last_worker, state_.workers.rbegin()->first.value);
  raise_workers(resumed.members);
  raise_workers(resumed.unsettled_members);
  raise_workers(resumed.finished);
}

core::Resumed JournalReplay::result() const {
  core::Resumed resumed;
  for (const auto& [id, agent] : state_.agents) resumed.agents.push_back({id, agent.host, agent.slots, agent.drain});
  for (const auto& [id, worker] : state_.workers) resumed.workers.push_back(worker);
  resumed.generation = state_.generation;
  resumed.issued = state_.issued;
  resumed.members = state_.now.members;
  resumed.shares = state_.now.shares;
  resumed.learning_rate_factor = state_.now.learning_rate_factor;
  resumed.synchronization = state_.now.synchronization;
  resumed.lineage = state_.lineage;
  resumed.target = state_.target;
  resumed.target_reason = state_.target_reason;
  resumed.reshared = state_.reshared;
  resumed.unsettled = state_.gap || state_.open_plan || state_.open_fence || state_.committed.has_value();
  std::set<WorkerId> unsettled;
  if (state_.open_fence) unsettled.insert(state_.halted.begin(), state_.halted.end());
  const auto plan = state_.committed ? state_.plans.find(*state_.committed) : state_.plans.end();
  if (plan != state_.plans.end()) unsettled.insert(plan->second.members.begin(), plan->second.members.end());
  // The plan's record is missing (a full disk): a recovery makes a new one.
  if (resumed.shares.size() != resumed.members.size()) {
    resumed.shares.assign(resumed.members.size(), 0);
    resumed.unsettled = true;
  }
  resumed.unsettled_members.assign(unsettled.begin(), unsettled.end());
  resumed.finished.assign(state_.finished.begin(), state_.finished.end());
  resumed.last_agent = state_.last_agent;
  resumed.last_worker = state_.last_worker;
  raise_highest(resumed);
  return resumed;
}

Result<core::Resumed> replay_journal(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return Error{ErrorCode::kIo, "the journal " + path + " cannot be read"};
  JournalReplay replay;
  for (std::string line; std::getline(stream, line);) replay.take(line);
  if (stream.bad()) return Error{ErrorCode::kIo, "the journal " + path + " cannot be read to its end"};
  auto audits = read_audits(audit_path_of(path));
  if (!audits.ok()) return audits.error();
  core::Resumed resumed = replay.result();
  resumed.audits = std::move(*audits);
  return resumed;
}

}  // namespace elastictrain
