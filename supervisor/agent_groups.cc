#include "supervisor/agent_groups.h"

#include <algorithm>
#include <asio/error_code.hpp>
#include <asio/steady_timer.hpp>
#include <deque>
#include <optional>
#include <utility>

#include "supervisor/host_groups.h"
#include "supervisor/protocol/check.h"
#include "supervisor/protocol/codec.h"

namespace elastictrain {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kMaxWaiting = 200'000;
constexpr std::size_t kMaxSamples = 20'000;

// Of two ends of one worker's processes, the one that is more likely to have caused the other.
int weight(const protocol::WorkerExited& exited) {
  if (exited.out_of_memory) return 3;
  if (exited.signal != 0) return 2;
  return exited.exit_code != 0 ? 1 : 0;
}

std::string encode(protocol::AgentDown message) {
  return protocol::encode_frame(message);
}

}  // namespace

// A part's end, as its worker's.
struct AgentGroups::PartFailure {
  protocol::WorkerExited exited;
  std::optional<protocol::WorkerSpawnFailed> not_started;
};

struct AgentGroups::Member {
  enum class State { kLaunching, kConnected, kAway } state = State::kLaunching;
  AgentId agent;
  std::string host;
  bool is_back = false;       // connected since the group was whole last
  bool has_reported = false;  // since a report was passed on
  std::set<WorkerId> has;     // those that it named when it connected; of the lead, all that it has
};

struct AgentGroups::Replica {
  std::optional<protocol::SpawnWorker> order;  // of the parts, until they are started
  std::set<std::uint32_t> parts;               // hosts where a process may run
  std::set<std::uint32_t> stopped;             // hosts where it is stopped by a signal
  bool has_greeted = false;
  bool was_told = false;                   // to end, because a part has failed
  std::optional<protocol::AgentUp> ended;  // the lead's last word, which waits for the parts' ends
  bool ended_well = false;
  std::optional<PartFailure> failure;
};

struct AgentGroups::Group {
  AgentId agent;
  std::vector<Member> members;
  bool is_whole = false;   // all are connected, and the core knows
  bool was_whole = false;  // once
  bool is_stopping = false;
  protocol::AgentHello hello;  // the lead's
  std::map<WorkerId, Replica> replicas;
  std::uint64_t report = 0;
  std::vector<protocol::WorkerSample> samples;                      // since a report was passed on
  std::deque<std::pair<std::uint32_t, protocol::AgentUp>> waiting;  // with the host's place

  bool all_connected() const {
    return std::all_of(members.begin(), members.end(),
                       [](const Member& member) { return member.state == Member::State::kConnected; });
  }
  bool any_connected() const {
    return std::any_of(members.begin(), members.end(),
                       [](const Member& member) { return member.state == Member::State::kConnected; });
  }
};

AgentGroups::AgentGroups(asio::io_context& io, std::uint32_t hosts, AgentTableOptions options,
                         launcher::Launcher& launcher, AgentHooks hooks, GroupTimes times)
    : io_(io),
      hosts_(hosts),
      times_(times),
      hooks_(std::move(hooks)),
      table_(io, std::move(options), launcher,
             {[this](AgentId agent, const protocol::AgentHello& hello) { connected(agent, hello); },
              [this](AgentId agent, const std::string& reason, core::LossEvidence evidence) {
                lost(agent, reason, evidence);
              },
              [this](AgentId agent, protocol::AgentUp message) { received(agent, std::move(message)); },
              [this](const std::string& address, const std::string& reason) { hooks_.on_rejected(address, reason); }}) {
}

AgentGroups::~AgentGroups() = default;

void AgentGroups::close() {
  life_.reset();
  table_.close();
}

AgentGroups::Group* AgentGroups::find(AgentId agent) {
  const auto found = groups_.find(lead_of(agent));
  return found == groups_.end() ? nullptr : &found->second;
}

const AgentGroups::Group* AgentGroups::find(AgentId agent) const {
  return const_cast<AgentGroups*>(this)->find(agent);
}

AgentGroups::Group& AgentGroups::add(AgentId agent, const std::string& host) {
  ET_CHECK(agent.value < kMateStride && !groups_.contains(agent), "a group has a number of its own");
  Group& group = groups_[agent];
  group.agent = agent;
  for (std::string& name : hosts_of_group(host)) {
    Member& member = group.members.emplace_back();
    member.agent = mate_of(agent, static_cast<std::uint32_t>(group.members.size() - 1));
    member.host = std::move(name);
  }
  return group;
}

void AgentGroups::adopt(AgentId agent, const std::string& host) {
  if (!grouped()) return table_.adopt(agent, host);
  Group& group = add(agent, host);
  group.was_whole = true;
  for (Member& member : group.members) {
    member.state = Member::State::kAway;
    table_.adopt(member.agent, member.host);
  }
}

void AgentGroups::launch(AgentId agent, const std::string& host) {
  if (!grouped()) return table_.launch(agent, host);
  Group& group = add(agent, host);
  for (auto& [id, other] : groups_) {
    if (&other == &group || other.is_stopping) continue;
    const bool shares = std::any_of(other.members.begin(), other.members.end(), [&](const Member& old) {
      return std::any_of(group.members.begin(), group.members.end(),
                         [&](const Member& member) { return member.host == old.host; });
    });
    if (shares) stop(id, times_.part_grace);
  }
  for (const Member& member : group.members) table_.launch(member.agent, member.host);
}

void AgentGroups::stop(AgentId agent, milliseconds grace) {
  if (!grouped()) return table_.stop(agent, grace);
  Group* group = find(agent);
  if (group == nullptr) return;
  group->is_stopping = true;
  group->waiting.clear();
  for (const Member& member : group->members) table_.stop(member.agent, grace);
}

void AgentGroups::drop(AgentId agent, const std::string& reason) {
  table_.drop(agent, reason);
}

bool AgentGroups::is_stopping(AgentId agent) const {
  if (!grouped()) return table_.is_stopping(agent);
  const Group* group = find(agent);
  return group == nullptr || group->is_stopping ||
         std::any_of(group->members.begin(), group->members.end(),
                     [&](const Member& member) { return table_.is_stopping(member.agent); });
}

void AgentGroups::send(AgentId agent, std::string frame) {
  if (connection_of(agent) != nullptr) table_.send(agent, std::move(frame));
}

const transport::FrameConnection* AgentGroups::connection_of(AgentId agent) const {
  if (!grouped()) return table_.connection_of(agent);
  const Group* group = find(agent);
  return group == nullptr || !group->is_whole ? nullptr : table_.connection_of(agent);
}

void AgentGroups::send_to_all_hosts(AgentId agent, const std::string& frame) {
  if (connection_of(agent) == nullptr) return;
  table_.send(agent, frame);
  if (!grouped()) return;
  for (const Member& member : find(agent)->members) {
    if (member.agent != agent) table_.send(member.agent, frame);
  }
}

void AgentGroups::spawn(AgentId agent, protocol::SpawnWorker order) {
  if (!grouped()) return table_.send(agent, encode(std::move(order)));
  Group* group = find(agent);
  if (group == nullptr || !group->is_whole) return;
  order.replica = {hosts_, 0, "", transport::make_key()};
  group->members.front().has.insert(order.worker);
  group->replicas[order.worker].order = order;
  table_.send(agent, encode(std::move(order)));
}

// The hosts that are away are at fault; where none is, those that were silent.
std::vector<std::string> AgentGroups::give_up(AgentId agent) {
  Group* group = grouped() ? find(agent) : nullptr;
  if (group == nullptr) return {};
  std::vector<std::string> away;
  std::vector<std::string> silent;
  for (const Member& member : group->members) {
    if (member.state != Member::State::kConnected) away.push_back(member.host);
    if (!member.has_reported) silent.push_back(member.host);
  }
  stop(group->agent, times_.part_grace);
  return away.empty() ? silent : away;
}

// ---------------------------------------------------------------------------------------------------------------
// Connections

void AgentGroups::connected(AgentId agent, const protocol::AgentHello& hello) {
  if (!grouped()) return hooks_.on_connected(agent, hello);
  Group* group = find(agent);
  ET_CHECK(group != nullptr && place_of(agent) < group->members.size(), "an agent that was launched has a group");
  Member& member = group->members[place_of(agent)];
  member.state = Member::State::kConnected;
  member.is_back = true;
  member.has_reported = false;
  member.has = {hello.workers.begin(), hello.workers.end()};
  if (place_of(agent) == 0) group->hello = hello;
  if (group->all_connected() && !group->is_stopping) become_whole(*group);
}

void AgentGroups::become_whole(Group& group) {
  group.is_whole = group.was_whole = true;
  compare(group);
  hooks_.on_connected(group.agent, hello_of(group));
  auto waiting = std::exchange(group.waiting, {});
  for (auto& [place, message] : waiting) take(group, place, std::move(message));
}

// What each host has with what the others have: orders and exits may be lost with a connection.
void AgentGroups::compare(Group& group) {
  if (group.members.front().is_back) compare_lead(group);
  for (std::uint32_t place = 1; place < group.members.size(); ++place) {
    if (group.members[place].is_back) compare_mate(group, place);
  }
  for (Member& member : group.members) member.is_back = false;
  for (const auto& [worker, replica] : group.replicas) {
    if (replica.was_told) end_replica(group, worker);
  }
}

void AgentGroups::compare_lead(Group& group) {
  const std::set<WorkerId>& has = group.members.front().has;
  for (WorkerId worker : has) {
    const auto [found, is_new] = group.replicas.try_emplace(worker);
    // One of an earlier supervisor.
    if (!is_new) continue;
    for (std::uint32_t place = 1; place < group.members.size(); ++place) found->second.parts.insert(place);
  }
  for (const auto& [worker, replica] : group.replicas) {
    if (has.contains(worker) || replica.ended) continue;
    // The core learns from the lead's list that it is gone.
    after(times_.repeat, group, worker, [this, worker = worker](Group& late, Replica& gone) {
      if (gone.ended) return;
      stop_parts(late, worker);
      late.replicas.erase(worker);
    });
  }
}

void AgentGroups::compare_mate(Group& group, std::uint32_t place) {
  const Member& member = group.members[place];
  for (WorkerId worker : member.has) {
    const auto found = group.replicas.find(worker);
    if (found != group.replicas.end() && !found->second.ended) continue;
    table_.send(member.agent, encode(end_order(worker)));
  }
  for (const auto& [worker, replica] : group.replicas) {
    if (!replica.parts.contains(place) || member.has.contains(worker)) continue;
    after(times_.repeat, group, worker, [this, place, worker = worker](Group& late, Replica& left) {
      if (!left.parts.contains(place)) return;
      const PartFailure gone{{worker, 0, 9, {"its process is gone"}}, std::nullopt};
      part_ended(late, worker, place, &gone);
    });
  }
}

// With the workers whose end waits for their parts' ends.
protocol::AgentHello AgentGroups::hello_of(const Group& group) const {
  protocol::AgentHello hello = group.hello;
  hello.workers.clear();
  for (const auto& [worker, replica] : group.replicas) {
    if (replica.ended || group.members.front().has.contains(worker)) hello.workers.push_back(worker);
  }
  return hello;
}

void AgentGroups::lost(AgentId agent, const std::string& reason, core::LossEvidence evidence) {
  if (!grouped()) return hooks_.on_lost(agent, reason, evidence);
  Group& group = *find(agent);
  Member& member = group.members[place_of(agent)];
  member.state = Member::State::kAway;
  group.is_whole = false;
  group.samples.clear();
  if (group.is_stopping && group.any_connected()) return;
  // Nothing of it runs yet that would be worth waiting for.
  if (!group.was_whole && evidence == core::LossEvidence::kConnection) evidence = core::LossEvidence::kNotYet;
  hooks_.on_lost(group.agent, "its host " + member.host + ": " + reason, evidence);
}

// ---------------------------------------------------------------------------------------------------------------
// Messages

void AgentGroups::received(AgentId agent, protocol::AgentUp message) {
  if (!grouped()) return hooks_.on_message(agent, std::move(message));
  Group& group = *find(agent);
  const bool at_once = group.is_whole || group.is_stopping || std::holds_alternative<protocol::WorkerOutput>(message);
  if (at_once) return take(group, place_of(agent), std::move(message));
  if (std::holds_alternative<protocol::AgentReport>(message)) return;
  group.waiting.emplace_back(place_of(agent), std::move(message));
  if (group.waiting.size() > kMaxWaiting) table_.drop(agent, "it said too much while another host was away");
}

void AgentGroups::take(Group& group, std::uint32_t place, protocol::AgentUp message) {
  if (const auto* report = std::get_if<protocol::AgentReport>(&message)) return take_report(group, place, *report);
  if (const auto* notice = std::get_if<protocol::HostNotice>(&message)) {
    return pass_on(group, protocol::HostNotice{"its host " + group.members[place].host + ": " + notice->reason});
  }
  if (std::holds_alternative<protocol::WorkerOutput>(message)) return pass_on(group, std::move(message));
  if (place == 0) return take_from_lead(group, std::move(message));
  take_from_mate(group, place, std::move(message));
}

void AgentGroups::pass_on(const Group& group, protocol::AgentUp message) {
  hooks_.on_message(group.agent, std::move(message));
}

void AgentGroups::take_from_lead(Group& group, protocol::AgentUp message) {
  if (const auto* listens = std::get_if<protocol::ReplicaListens>(&message)) return start_parts(group, *listens);
  if (const auto* exited = std::get_if<protocol::WorkerExited>(&message)) {
    const bool is_good = exited->signal == 0 && exited->exit_code == 0;
    return lead_ended(group, exited->worker, std::move(message), is_good);
  }
  if (const auto* failed = std::get_if<protocol::WorkerSpawnFailed>(&message)) {
    return lead_ended(group, failed->worker, std::move(message), false);
  }
  if (const auto* said = std::get_if<protocol::FromWorker>(&message)) {
    const auto found = group.replicas.find(said->worker);
    const bool greets = std::holds_alternative<protocol::WorkerHello>(said->message);
    if (greets && found != group.replicas.end()) found->second.has_greeted = true;
  }
  pass_on(group, std::move(message));
}

void AgentGroups::start_parts(Group& group, const protocol::ReplicaListens& listens) {
  const auto found = group.replicas.find(listens.worker);
  if (found == group.replicas.end() || !found->second.order) return;
  protocol::SpawnWorker order = std::move(*std::exchange(found->second.order, std::nullopt));
  order.replica.address = listens.address;
  for (std::uint32_t place = 1; place < group.members.size(); ++place) {
    order.replica.host = place;
    found->second.parts.insert(place);
    table_.send(group.members[place].agent, encode(order));
  }
}

void AgentGroups::take_from_mate(Group& group, std::uint32_t place, protocol::AgentUp message) {
  const std::string where = "its process on host " + group.members[place].host;
  if (auto* exited = std::get_if<protocol::WorkerExited>(&message)) {
    const bool is_good = exited->signal == 0 && exited->exit_code == 0;
    PartFailure failure{std::move(*exited), std::nullopt};
    return part_ended(group, failure.exited.worker, place, is_good ? nullptr : &failure);
  }
  if (auto* failed = std::get_if<protocol::WorkerSpawnFailed>(&message)) {
    const std::string reason = where + ": " + failed->reason;
    const std::int32_t status = failed->exit_status != 0 ? failed->exit_status : 1;
    const PartFailure failure{{failed->worker, status, 0, {reason}},
                              protocol::WorkerSpawnFailed{failed->worker, reason, failed->exit_status}};
    return part_ended(group, failed->worker, place, &failure);
  }
  const auto* said = std::get_if<protocol::FromWorker>(&message);
  const auto found = said == nullptr ? group.replicas.end() : group.replicas.find(said->worker);
  if (found == group.replicas.end() || found->second.failure) return;
  found->second.failure = PartFailure{
      {said->worker, 70, 0, {"it opened a session, which only the worker's first process may do"}}, std::nullopt};
  found->second.failure->exited.last_error_lines.push_back("(" + where + ")");
  end_replica(group, said->worker);
}

// ---------------------------------------------------------------------------------------------------------------
// Ends

void AgentGroups::lead_ended(Group& group, WorkerId worker, protocol::AgentUp ended, bool is_good) {
  const auto found = group.replicas.find(worker);
  if (found == group.replicas.end()) return pass_on(group, std::move(ended));
  Replica& replica = found->second;
  if (replica.ended) return;
  group.members.front().has.erase(worker);
  replica.ended = std::move(ended);
  replica.ended_well = is_good;
  if (replica.parts.empty()) return settle(group, worker);
  // Parts of a worker that has ended in order end by themselves.
  if (!is_good || replica.failure) return stop_parts(group, worker);
  after(times_.parts_end, group, worker, [this, worker](Group& late, Replica&) { stop_parts(late, worker); });
}

void AgentGroups::part_ended(Group& group, WorkerId worker, std::uint32_t place, const PartFailure* failure) {
  const auto found = group.replicas.find(worker);
  if (found == group.replicas.end()) return;
  Replica& replica = found->second;
  if (replica.parts.erase(place) == 0) return;
  replica.stopped.erase(place);
  if (replica.ended) return settle(group, worker);
  if (failure == nullptr || replica.was_told) return;
  const bool is_first = !replica.failure;
  if (!is_first && weight(replica.failure->exited) >= weight(failure->exited)) return;
  replica.failure = *failure;
  if (!failure->not_started) {
    replica.failure->exited.last_error_lines.push_back("(its process on host " + group.members[place].host + ")");
  }
  if (!is_first) return;
  after(times_.words, group, worker, [this, worker](Group& late, Replica&) { end_replica(late, worker); });
}

void AgentGroups::end_replica(Group& group, WorkerId worker) {
  Replica& replica = group.replicas.at(worker);
  if (replica.ended) return;
  replica.was_told = true;
  table_.send(group.agent, encode(end_order(worker)));
  stop_parts(group, worker);
}

void AgentGroups::stop_parts(const Group& group, WorkerId worker) {
  for (std::uint32_t place : group.replicas.at(worker).parts) {
    table_.send(group.members[place].agent, encode(end_order(worker)));
  }
}

protocol::StopWorker AgentGroups::end_order(WorkerId worker) const {
  return {worker, static_cast<std::uint64_t>(times_.part_grace.count())};
}

// All of its processes have ended: the core may use its slot again.
void AgentGroups::settle(Group& group, WorkerId worker) {
  Replica replica = std::move(group.replicas.extract(worker).mapped());
  const auto* exited = std::get_if<protocol::WorkerExited>(&*replica.ended);
  const bool is_parts =
      replica.failure && exited != nullptr && (replica.was_told || weight(*exited) <= weight(replica.failure->exited));
  if (!is_parts) return pass_on(group, std::move(*replica.ended));
  if (replica.failure->not_started && !replica.has_greeted) {
    return pass_on(group, std::move(*replica.failure->not_started));
  }
  pass_on(group, std::move(replica.failure->exited));
}

// ---------------------------------------------------------------------------------------------------------------
// Reports

void AgentGroups::take_report(Group& group, std::uint32_t place, const protocol::AgentReport& report) {
  group.members[place].has_reported = true;
  if (place == 0) {
    group.report = report.sequence;
    group.samples.insert(group.samples.end(), report.workers.begin(), report.workers.end());
    if (group.samples.size() > kMaxSamples)
      group.samples.erase(group.samples.begin(), group.samples.end() - kMaxSamples);
  } else {
    for (auto& [worker, replica] : group.replicas) replica.stopped.erase(place);
    for (const protocol::WorkerSample& sample : report.workers) {
      const auto found = group.replicas.find(sample.worker);
      if (sample.stopped && found != group.replicas.end()) found->second.stopped.insert(place);
    }
  }
  const bool all =
      std::all_of(group.members.begin(), group.members.end(), [](const Member& member) { return member.has_reported; });
  if (!all || !group.is_whole) return;
  for (Member& member : group.members) member.has_reported = false;
  protocol::AgentReport whole{group.report, std::exchange(group.samples, {})};
  for (protocol::WorkerSample& sample : whole.workers) {
    const auto found = group.replicas.find(sample.worker);
    if (found != group.replicas.end() && !found->second.stopped.empty()) sample.stopped = true;
  }
  pass_on(group, std::move(whole));
}

// ---------------------------------------------------------------------------------------------------------------
// Time

void AgentGroups::after(milliseconds time, std::function<void()> act) {
  const auto timer = std::make_shared<asio::steady_timer>(io_, time);
  timer->async_wait([timer, life = std::weak_ptr(life_), act = std::move(act)](asio::error_code error) {
    if (!error && !life.expired()) act();
  });
}

void AgentGroups::after(milliseconds time, const Group& group, WorkerId worker,
                        std::function<void(Group&, Replica&)> act) {
  after(time, [this, agent = group.agent, worker, act = std::move(act)] {
    Group& late = groups_.at(agent);
    const auto found = late.replicas.find(worker);
    if (found != late.replicas.end()) act(late, found->second);
  });
}

}  // namespace elastictrain
