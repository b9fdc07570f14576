#include "supervisor/agent_table.h"

#include <algorithm>
#include <asio/error_code.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/address.hpp>
#include <asio/ip/tcp.hpp>
#include <optional>
#include <utility>

#include "supervisor/protocol/check.h"
#include "supervisor/protocol/codec.h"
#include "supervisor/protocol/display_text.h"
#include "supervisor/protocol/limits.h"

namespace elastictrain {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kHelloDeadline{5'000};     // from a connection to its AgentHello
constexpr milliseconds kCopyAllowance{150'000};   // for a launcher that may have to copy the binary
constexpr milliseconds kForgetAfterLoss{5'000};   // of an agent that was told to end
constexpr milliseconds kLastWords{1'000};         // for data of an exited process that is still in its connection
constexpr milliseconds kForgetAfterGrace{2'000};  // of an agent that was told to end and is still connected
// More wait until the next tick: agents share the supervisor's thread. An agent brings as much after it was away, or
// with many workers that write notes.
constexpr std::uint32_t kMaxFramesPerTick = 20'000;

}  // namespace

// One accepted connection. `agent` is empty until it has introduced itself.
struct AgentTable::Peer {
  std::shared_ptr<transport::FrameConnection> connection;
  std::optional<AgentId> agent;
  Clock::time_point hello_deadline;
  std::uint32_t frames_this_tick = 0;
  std::uint64_t acknowledged_report = 0;  // of the last AgentReport that was passed on
};

struct AgentTable::Entry {
  enum class State { kLaunching, kConnected, kLost } state = State::kLaunching;
  std::string host;
  PeerPtr peer;
  bool process = false;   // part of its launch still runs
  bool stopping = false;  // stop() was called
  bool ended = false;     // the agent's process has ended
  Clock::time_point launched_at;
  Clock::time_point stop_by;                   // end of the grace, where `stopping`
  std::optional<Clock::time_point> forget_at;  // the time after which the rest is ended by force
};

AgentTable::AgentTable(asio::io_context& io, AgentTableOptions options, launcher::Launcher& launcher, AgentHooks hooks)
    : io_(io), options_(std::move(options)), launcher_(launcher), hooks_(std::move(hooks)), tick_timer_(io) {
  options_.bootstrap.protocol_version = limits::kProtocolVersion;
  options_.bootstrap.key = transport::make_key();
}

AgentTable::~AgentTable() {
  close();
}

Status AgentTable::open() {
  auto listening = transport::listen(
      io_, options_.listen, options_.bootstrap.key,
      [this](std::shared_ptr<transport::FrameConnection> connection) { accept(std::move(connection)); },
      [this](const std::string& address, const std::string& reason) { hooks_.on_rejected(address, reason); });
  if (!listening.ok()) return listening.error();
  listener_ = std::move(listening).value();
  options_.bootstrap.port = listener_->port();
  arm_tick();
  return {};
}

std::uint16_t AgentTable::port() const {
  return options_.bootstrap.port;
}

void AgentTable::resume(const transport::Key& key, std::uint16_t port, std::vector<std::string> listen_addresses,
                        std::vector<std::string> advertise_addresses) {
  options_.bootstrap.key = key;
  options_.listen.port = port;
  options_.listen.addresses = std::move(listen_addresses);
  options_.bootstrap.addresses = std::move(advertise_addresses);
}

void AgentTable::adopt(AgentId agent, const std::string& host) {
  ET_CHECK(!entries_.contains(agent), "an agent is taken over once");
  Entry& entry = entries_[agent];
  entry.host = host;
  entry.state = Entry::State::kLost;
  launcher_.adopt(host);
}

void AgentTable::launch(AgentId agent, const std::string& host) {
  ET_CHECK(!entries_.contains(agent), "an agent is launched once");
  Entry& entry = entries_[agent];
  entry.host = host;
  set_process(entry, true);
  entry.launched_at = Clock::now();
  last_progress_ = entry.launched_at;
  launcher::AgentSpec spec{agent, host, options_.bootstrap};
  spec.bootstrap.agent = agent;
  spec.bootstrap.host = host;
  launcher_.launch(std::move(spec));
}

void AgentTable::launch_ended(const launcher::LaunchEnded& ended) {
  const auto found = entries_.find(ended.agent);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  set_process(entry, false);
  last_progress_ = Clock::now();
  if (entry.state == Entry::State::kLaunching) {
    // An agent that has outlived its ssh is about to introduce itself.
    if (ended.launched && !ended.agent_ended) return;
    return lost(ended.agent, ended.message,
                ended.may_work_later ? core::LossEvidence::kNotYet : core::LossEvidence::kNeverCame);
  }
  if (!ended.agent_ended) return;
  entry.ended = true;
  // While it is connected, its last messages are in the connection, which closes next.
  if (entry.peer)
    entry.forget_at = Clock::now() + kLastWords;
  else
    lost(ended.agent, ended.message, core::LossEvidence::kProcess);
}

void AgentTable::send(AgentId agent, std::string frame) {
  const auto found = entries_.find(agent);
  if (found != entries_.end() && found->second.peer) found->second.peer->connection->send(std::move(frame));
}

void AgentTable::stop(AgentId agent, milliseconds grace) {
  const auto found = entries_.find(agent);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  entry.stopping = true;
  entry.stop_by = Clock::now() + grace;
  if (!entry.peer) return launcher_.forget(agent);
  entry.forget_at = entry.stop_by + kForgetAfterGrace;
  const auto grace_ms = static_cast<std::uint64_t>(grace.count());
  entry.peer->connection->send(protocol::encode_frame(protocol::AgentDown(protocol::StopAgent{grace_ms})));
}

void AgentTable::drop(AgentId agent, const std::string& reason) {
  const auto found = entries_.find(agent);
  if (found == entries_.end() || !found->second.peer) return;
  const PeerPtr peer = found->second.peer;
  peer->connection->close();
  give_up(found->second);
  closed(peer, reason);
}

AgentTable::PeerPtr AgentTable::exchange_peer(Entry& entry, PeerPtr peer) {
  connections_ += peer != nullptr;
  connections_ -= entry.peer != nullptr;
  ET_CHECK(connections_ <= entries_.size(), "an agent has one connection at most");
  return std::exchange(entry.peer, std::move(peer));
}

void AgentTable::set_process(Entry& entry, bool runs) {
  processes_ += runs;
  processes_ -= std::exchange(entry.process, runs);
  ET_CHECK(processes_ <= entries_.size(), "an agent has one launch at most");
}

// From here on it is refused.
void AgentTable::give_up(Entry& entry) {
  if (!std::exchange(entry.stopping, true)) entry.stop_by = Clock::now();
}

const transport::FrameConnection* AgentTable::connection_of(AgentId agent) const {
  const auto found = entries_.find(agent);
  return found == entries_.end() || !found->second.peer ? nullptr : found->second.peer->connection.get();
}

bool AgentTable::is_stopping(AgentId agent) const {
  const auto found = entries_.find(agent);
  return found == entries_.end() || found->second.stopping;
}

std::vector<AgentId> AgentTable::connected() const {
  std::vector<AgentId> agents;
  for (const auto& [agent, entry] : entries_) {
    if (entry.peer) agents.push_back(agent);
  }
  return agents;
}

void AgentTable::accept(std::shared_ptr<transport::FrameConnection> connection) {
  auto peer = std::make_shared<Peer>();
  peer->connection = std::move(connection);
  peer->hello_deadline = Clock::now() + kHelloDeadline;
  newcomers_.push_back(peer);
  const std::weak_ptr<Peer> weak = peer;
  peer->connection->start(
      [this, weak](const std::string& body) {
        if (const PeerPtr self = weak.lock()) received(self, body);
      },
      [this, weak](const Error& error) {
        if (const PeerPtr self = weak.lock()) closed(self, error.message);
      });
}

void AgentTable::received(const PeerPtr& peer, const std::string& body) {
  if (++peer->frames_this_tick == kMaxFramesPerTick) peer->connection->pause_reading();
  auto message = protocol::decode_body<protocol::AgentUp>(body);
  if (!message.ok()) return reject(peer, "it sent a " + message.error().message);
  const auto* hello = std::get_if<protocol::AgentHello>(&*message);
  if (hello != nullptr && !peer->agent) return introduce(peer, *hello);
  if (hello != nullptr) return reject(peer, "it introduced itself twice");
  if (!peer->agent) return reject(peer, "it sent a message before it introduced itself");
  if (const auto* report = std::get_if<protocol::AgentReport>(&*message)) peer->acknowledged_report = report->sequence;
  hooks_.on_message(*peer->agent, std::move(*message));
}

void AgentTable::introduce(const PeerPtr& peer, const protocol::AgentHello& hello) {
  if (const std::string why = objection(hello); !why.empty()) {
    reject(peer, why);
    return refuse_version(hello.agent, why);
  }
  const auto found = entries_.find(hello.agent);
  if (found == entries_.end()) {
    hooks_.on_rejected(peer->connection->remote_address(), "it introduced itself as " + to_string(hello.agent) +
                                                               ", which was not launched; it was told to exit");
    return turn_away(peer, milliseconds(0));
  }
  Entry& entry = found->second;
  if (entry.stopping) {
    const auto left = std::chrono::duration_cast<milliseconds>(entry.stop_by - Clock::now());
    return turn_away(peer, std::max(left, milliseconds(0)));
  }
  admit(peer, entry, hello);
}

void AgentTable::admit(const PeerPtr& peer, Entry& entry, const protocol::AgentHello& hello) {
  // A peer that proves the key and introduces itself as this agent is this agent: its older connection broke unnoticed.
  if (entry.peer) {
    const PeerPtr older = entry.peer;
    older->connection->close();
    closed(older, "it has reconnected");
  }
  ET_CHECK(!peer->agent && !entry.peer && !entry.stopping, "a connection becomes that of one agent, which is awaited");
  std::erase(newcomers_, peer);
  peer->agent = hello.agent;
  exchange_peer(entry, peer);
  entry.state = Entry::State::kConnected;
  entry.forget_at.reset();
  last_progress_ = Clock::now();
  hooks_.on_connected(hello.agent, hello);
}

// An agent that was given up, or that belongs to no run: its workers must not keep running.
void AgentTable::turn_away(const PeerPtr& peer, milliseconds grace) {
  std::erase(newcomers_, peer);
  const auto grace_ms = static_cast<std::uint64_t>(grace.count());
  peer->connection->send(protocol::encode_frame(protocol::AgentDown(protocol::StopAgent{grace_ms})));
  peer->connection->close_after_flush();
}

std::string AgentTable::objection(const protocol::AgentHello& hello) const {
  const std::string remedy = "; install the same elastictrain on every host, or let the launcher copy it";
  if (hello.protocol_version != limits::kProtocolVersion) {
    return "its agent speaks protocol " + std::to_string(hello.protocol_version) + ", this supervisor " +
           std::to_string(limits::kProtocolVersion) + remedy;
  }
  if (hello.binary_version != ELASTICTRAIN_VERSION) {
    return "its agent is elastictrain " + hello.binary_version + ", this is " ELASTICTRAIN_VERSION + remedy;
  }
  return {};
}

void AgentTable::refuse_version(AgentId agent, const std::string& reason) {
  const auto found = entries_.find(agent);
  if (found == entries_.end() || found->second.state != Entry::State::kLaunching) return;
  launcher_.forget(agent);
  lost(agent, reason, core::LossEvidence::kNeverCame);
}

// The peer broke a rule. It is named as far as it is known.
void AgentTable::reject(const PeerPtr& peer, const std::string& reason) {
  const std::string address = peer->connection->remote_address();
  peer->connection->close();
  if (peer->agent)
    give_up(entries_.at(*peer->agent));
  else
    hooks_.on_rejected(address, reason);
  closed(peer, reason);
}

void AgentTable::closed(const PeerPtr& peer, const std::string& reason) {
  std::erase(newcomers_, peer);
  if (!peer->agent) return;
  const AgentId agent = *std::exchange(peer->agent, std::nullopt);
  const auto found = entries_.find(agent);
  if (found == entries_.end() || found->second.peer != peer) return;
  const auto evidence = found->second.ended ? core::LossEvidence::kProcess : core::LossEvidence::kConnection;
  lost(agent, "its agent at " + peer->connection->remote_address() + ": " + reason, evidence);
}

void AgentTable::lost(AgentId agent, const std::string& reason, core::LossEvidence evidence) {
  Entry& entry = entries_.at(agent);
  exchange_peer(entry, nullptr);
  entry.state = Entry::State::kLost;
  entry.forget_at.reset();
  if (entry.stopping || closing_) entry.forget_at = Clock::now() + kForgetAfterLoss;
  if (evidence == core::LossEvidence::kNeverCame || evidence == core::LossEvidence::kNotYet) give_up(entry);
  if (!closing_) hooks_.on_lost(agent, reason, evidence);
}

void AgentTable::arm_tick() {
  tick_timer_.expires_after(options_.tick);
  tick_timer_.async_wait([this, life = std::weak_ptr(life_)](asio::error_code error) {
    if (error || life.expired()) return;
    arm_tick();
    tick();
  });
}

void AgentTable::tick() {
  const auto now = Clock::now();
  check_newcomers(now);
  send_heartbeats();
  std::vector<AgentId> agents;
  for (const auto& [agent, entry] : entries_) agents.push_back(agent);
  for (AgentId agent : agents) check_entry(agent, entries_.at(agent), now);
}

void AgentTable::check_newcomers(Clock::time_point now) {
  const auto newcomers = newcomers_;
  for (const PeerPtr& peer : newcomers) {
    if (now >= peer->hello_deadline) reject(peer, "it did not introduce itself in time");
  }
}

void AgentTable::send_heartbeats() {
  ++heartbeat_;
  for (auto& [agent, entry] : entries_) {
    if (!entry.peer) continue;
    const protocol::SupervisorHeartbeat heartbeat{heartbeat_, entry.peer->acknowledged_report};
    entry.peer->connection->send(protocol::encode_frame(protocol::AgentDown(heartbeat)));
  }
}

void AgentTable::check_entry(AgentId agent, Entry& entry, Clock::time_point now) {
  if (entry.peer && std::exchange(entry.peer->frames_this_tick, 0) >= kMaxFramesPerTick) {
    entry.peer->connection->resume_reading();
  }
  if (entry.forget_at && now >= *entry.forget_at) {
    entry.forget_at.reset();
    if (entry.process) launcher_.forget(agent);
    if (entry.peer) drop(agent, entry.ended ? "its process has ended" : "it did not exit within its grace");
    return;
  }
  // Launches are queued, so time counts from the last one that made progress.
  const auto since = std::max(entry.launched_at, last_progress_);
  if (entry.state != Entry::State::kLaunching || now - since < launch_allowance()) return;
  launcher_.forget(agent);
  lost(agent, "its agent did not connect within " + protocol::duration_text(launch_allowance()),
       core::LossEvidence::kNeverCame);
}

milliseconds AgentTable::launch_allowance() const {
  return options_.connect_timeout + (launcher_.capabilities().copies_binary ? kCopyAllowance : milliseconds(0));
}

void AgentTable::stop_all(milliseconds grace) {
  closing_ = true;
  for (auto& [agent, entry] : entries_) {
    if (!entry.peer && entry.process) launcher_.forget(agent);
    if (entry.peer && !entry.stopping) stop(agent, grace);
  }
}

void AgentTable::forget_all() {
  for (auto& [agent, entry] : entries_) {
    if (entry.process) launcher_.forget(agent);
    if (entry.peer) exchange_peer(entry, nullptr)->connection->close_after_flush();
  }
}

void AgentTable::close() {
  closing_ = true;
  tick_timer_.cancel();
  if (listener_) listener_->stop();
  for (const PeerPtr& peer : newcomers_) peer->connection->close();
  newcomers_.clear();
  for (auto& [agent, entry] : entries_) {
    if (entry.peer) exchange_peer(entry, nullptr)->connection->close();
  }
}

namespace {

constexpr const char* kLocal = "127.0.0.1";

std::string without_port(const std::string& endpoint) {
  const std::string address = endpoint.substr(0, endpoint.rfind(':'));
  if (address.size() < 2 || address.front() != '[') return address;
  return address.substr(1, address.size() - 2);
}

bool is_loopback(const std::string& address) {
  asio::error_code error;
  const auto parsed = asio::ip::make_address(address, error);
  return error || parsed.is_loopback();
}

}  // namespace

std::string master_address(const AgentTable& agents, AgentId first) {
  const transport::FrameConnection* connection = agents.connection_of(first);
  if (connection == nullptr) return kLocal;
  if (const std::string remote = without_port(connection->remote_address()); !is_loopback(remote)) return remote;
  // Rank 0 is on this machine: the other hosts can use our address by which they reached us.
  for (AgentId agent : agents.connected()) {
    const transport::FrameConnection* other = agents.connection_of(agent);
    if (!is_loopback(without_port(other->remote_address()))) return other->local_address();
  }
  return kLocal;
}

std::uint16_t find_free_port() {
  asio::io_context io;
  asio::ip::tcp::acceptor acceptor(io);
  asio::error_code error;
  acceptor.open(asio::ip::tcp::v4(), error);
  if (!error) acceptor.bind({asio::ip::tcp::v4(), 0}, error);
  const auto endpoint = acceptor.local_endpoint(error);
  return error ? 0 : endpoint.port();
}

}  // namespace elastictrain
