// Purpose: the agents of a run: launch, authentication, messages in both directions, end; and the address among them
// at which torch's programs meet (MASTER_ADDR, MASTER_PORT).
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "launcher/launcher.h"
#include "supervisor/core/pure/event.h"
#include "supervisor/protocol/agent_messages.h"
#include "supervisor/protocol/result.h"
#include "supervisor/transport/frame_connection.h"

// The agents of a run: launches them, accepts those that prove their identity, carries messages in both
// directions, drops those that break the rules, and makes sure that nothing of them is left at the end.
//
// Ownership: owns the listener and the connections; borrows the launcher. Thread: the io_context's, also for callbacks;
// a callback is never made from inside a call of the owner.
// Errors: of an agent: on_lost, once for each connection or launch that failed, with text for the user, and once more
// if it turns out afterwards that the agent's process has exited. An agent whose connection broke may reconnect until
// stop() is called for it; after that it is told to exit at once, and no callback is made.

namespace elastictrain {

struct AgentHooks {
  std::function<void(AgentId, const protocol::AgentHello&)> on_connected;
  std::function<void(AgentId, const std::string& reason, core::LossEvidence evidence)> on_lost;
  std::function<void(AgentId, protocol::AgentUp)> on_message;  // never an AgentHello
  std::function<void(const std::string& address, const std::string& reason)> on_rejected;
};

struct AgentTableOptions {
  protocol::AgentBootstrap bootstrap;  // template for every agent's bootstrap; id, host, key and port are filled in
  transport::ListenOptions listen;
  std::chrono::milliseconds tick{250};
  std::chrono::milliseconds connect_timeout{10'000};
};

class AgentTable {
 public:
  AgentTable(asio::io_context& io, AgentTableOptions options, launcher::Launcher& launcher, AgentHooks hooks);
  ~AgentTable();
  AgentTable(const AgentTable&) = delete;
  AgentTable& operator=(const AgentTable&) = delete;

  Status open();
  std::uint16_t port() const;

  // Before open(), for a run that is taken over: the port to which its agents reconnect, and their key.
  void resume(const transport::Key& key, std::uint16_t port, std::vector<std::string> listen_addresses,
              std::vector<std::string> advertise_addresses);
  // Before open(): accepts an agent that an earlier supervisor launched. Only its connection shows when it ends.
  void adopt(AgentId agent, const std::string& host);
  const AgentTableOptions& options() const { return options_; }

  void launch(AgentId agent, const std::string& host);
  void launch_ended(const launcher::LaunchEnded& ended);
  void send(AgentId agent, std::string frame);
  // Asks the agent to end itself and its workers; what is left of its launch after the grace is ended by force. Final,
  // also for an agent that is not connected now.
  void stop(AgentId agent, std::chrono::milliseconds grace);
  // For a violation that the owner finds: the agent is dropped and named, and not accepted again.
  void drop(AgentId agent, const std::string& reason);

  const transport::FrameConnection* connection_of(AgentId agent) const;
  std::vector<AgentId> connected() const;
  // It was told to exit, or will be when it reconnects.
  bool is_stopping(AgentId agent) const;

  // The end of the run: every agent is asked to stop, then ended by force.
  void stop_all(std::chrono::milliseconds grace);
  void forget_all();
  // Both are asked after every event: they must not cost more with more agents.
  bool any_connected() const { return connections_ > 0; }
  bool any_process() const { return processes_ > 0; }
  void close();

 private:
  using Clock = std::chrono::steady_clock;
  struct Peer;
  struct Entry;
  using PeerPtr = std::shared_ptr<Peer>;

  void accept(std::shared_ptr<transport::FrameConnection> connection);
  void received(const PeerPtr& peer, const std::string& body);
  void introduce(const PeerPtr& peer, const protocol::AgentHello& hello);
  std::string objection(const protocol::AgentHello& hello) const;
  void reject(const PeerPtr& peer, const std::string& reason);
  void refuse_version(AgentId agent, const std::string& reason);
  void admit(const PeerPtr& peer, Entry& entry, const protocol::AgentHello& hello);
  void turn_away(const PeerPtr& peer, std::chrono::milliseconds grace);
  void give_up(Entry& entry);
  // Only these change what is counted. Returns the peer that was there.
  PeerPtr exchange_peer(Entry& entry, PeerPtr peer);
  void set_process(Entry& entry, bool runs);
  void closed(const PeerPtr& peer, const std::string& reason);
  void lost(AgentId agent, const std::string& reason, core::LossEvidence evidence);
  void arm_tick();
  void tick();
  void check_newcomers(Clock::time_point now);
  void check_entry(AgentId agent, Entry& entry, Clock::time_point now);
  void send_heartbeats();
  std::chrono::milliseconds launch_allowance() const;

  asio::io_context& io_;
  AgentTableOptions options_;
  launcher::Launcher& launcher_;
  AgentHooks hooks_;
  std::unique_ptr<transport::Listener> listener_;
  std::unordered_map<AgentId, Entry> entries_;
  std::size_t connections_ = 0;     // entries with a peer
  std::size_t processes_ = 0;       // entries of whose launch a part still runs
  std::vector<PeerPtr> newcomers_;  // authenticated, not introduced yet
  asio::steady_timer tick_timer_;
  Clock::time_point last_progress_;  // of any launch
  std::uint64_t heartbeat_ = 0;
  bool closing_ = false;
  std::shared_ptr<char> life_ = std::make_shared<char>();  // a tick that comes too late finds it expired
};

// MASTER_ADDR and MASTER_PORT for programs that connect to each other themselves, as torch's do.

// The numeric address of `first`'s host as the other hosts reach it; 127.0.0.1 if all agents are on this machine.
std::string master_address(const AgentTable& agents, AgentId first);

// A port that is free on this machine now; 0 if there is none.
std::uint16_t find_free_port();

}  // namespace elastictrain
