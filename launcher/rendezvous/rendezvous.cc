#include "launcher/rendezvous/rendezvous.h"

#include <asio/post.hpp>
#include <map>
#include <set>
#include <utility>

#include "launcher/agent_program.h"
#include "launcher/hostfile.h"
#include "supervisor/protocol/agent_messages.h"
#include "supervisor/protocol/codec.h"
#include "supervisor/protocol/display_text.h"
#include "supervisor/protocol/limits.h"

namespace elastictrain::launcher {
namespace {

using Clock = std::chrono::steady_clock;
using Connection = std::shared_ptr<transport::FrameConnection>;
using protocol::GuestDown;
using protocol::GuestUp;

constexpr std::uint64_t kPollMs = 500;

// A command that offers a host.
struct Guest {
  Host host;
  std::uint64_t instance = 0;  // 0: not known, of a command that an earlier supervisor had
  Connection connection;       // null: lost
  Clock::time_point lost_at;
  bool leaving = false;
  std::string unneeded;      // why it was let go; empty: it was not
  std::set<AgentId> agents;  // launched there and not known to have ended
};

class Hub final : public Rendezvous {
 public:
  Hub(asio::io_context& io, RendezvousOptions options) : io_(io), options_(std::move(options)) {}

  ~Hub() override {
    if (listener_) listener_->stop();
    for (const Connection& connection : strangers_) connection->close();
    for (const auto& [name, guest] : guests_) {
      if (guest.connection) guest.connection->close();
    }
  }

  Status open() {
    transport::ListenOptions listen;
    listen.addresses = options_.addresses;
    listen.port = options_.port;
    auto listener = transport::listen(
        io_, listen, options_.key, [this](Connection connection) { accepted(std::move(connection)); },
        [this](const std::string& address, const std::string& reason) { rejected(address, reason); });
    if (!listener.ok()) return listener.error();
    listener_ = std::move(*listener);
    return {};
  }

  std::uint16_t port() const override { return listener_->port(); }
  std::unique_ptr<HostSource> hosts() override;
  std::unique_ptr<Launcher> launcher(LaunchSink sink) override;
  bool serves(const std::string& host) const override { return guests_.contains(host); }

  void expect(const std::vector<Host>& hosts) override {
    for (const Host& host : hosts) {
      Guest& guest = guests_[host.name];
      guest.host = host;
      guest.lost_at = Clock::now();
    }
  }

  void on_change(std::function<void(const std::vector<Host>&)> changed) override { changed_ = std::move(changed); }

  void let_go(const std::string& host, const std::string& reason) override {
    const auto found = guests_.find(host);
    if (found == guests_.end() || found->second.leaving) return;
    found->second.leaving = true;
    found->second.unneeded = reason;
    send(found->second, protocol::HostUnneeded{reason});
    report_change();
  }

  void finish(int status, std::chrono::milliseconds limit) override {
    listener_->stop();
    for (const auto& [name, guest] : guests_) send(guest, protocol::RunEnded{status});
    const auto deadline = Clock::now() + limit;
    while (has_guests() && Clock::now() < deadline) {
      if (io_.stopped()) io_.restart();
      io_.run_one_until(deadline);
    }
  }

  std::vector<Host> offered() const {
    std::vector<Host> hosts = options_.own;
    for (const auto& [name, guest] : guests_) {
      const bool is_gone = !guest.connection && Clock::now() - guest.lost_at > options_.keep_lost;
      if (!is_gone && !guest.leaving) hosts.push_back(guest.host);
    }
    return hosts;
  }

  void launch(const AgentSpec& spec) {
    const auto found = guests_.find(spec.host);
    if (found == guests_.end() || !found->second.connection) {
      return end_later({.agent = spec.agent, .message = spec.host + ": the command that offered this host is lost"});
    }
    found->second.agents.insert(spec.agent);
    send(found->second, spec.bootstrap);
  }

  void forget(AgentId agent) {
    for (const auto& [name, guest] : guests_) {
      if (guest.agents.contains(agent)) send(guest, protocol::ForgetAgent{agent});
    }
  }

  void set_sink(LaunchSink sink) { sink_ = std::move(sink); }
  asio::io_context& io() { return io_; }

 private:
  static void send(const Guest& guest, GuestDown message) {
    if (guest.connection) guest.connection->send(protocol::encode_frame(message));
  }

  bool has_guests() const {
    for (const auto& [name, guest] : guests_) {
      if (guest.connection) return true;
    }
    return false;
  }

  void accepted(Connection connection) {
    strangers_.insert(connection);
    transport::FrameConnection* const raw = connection.get();
    connection->start([this, raw](const std::string& body) { received(raw, body); },
                      [this, raw](const Error& error) { lost(raw, error.message); });
  }

  void rejected(const std::string& address, const std::string& reason) {
    if (!warned_.insert(address.substr(0, address.rfind(':'))).second) return;
    options_.say("a command at " + address + " could not join (" + reason +
                 "); it needs the same secret and the same name of the run");
  }

  Guest* guest_of(const transport::FrameConnection* connection) {
    for (auto& [name, guest] : guests_) {
      if (guest.connection.get() == connection) return &guest;
    }
    return nullptr;
  }

  void received(transport::FrameConnection* connection, const std::string& body) {
    auto message = protocol::decode_body<GuestUp>(body);
    if (!message.ok()) return drop(connection, message.error().message);
    if (const auto* offer = std::get_if<protocol::HostOffer>(&*message)) return welcome(connection, *offer);
    Guest* guest = guest_of(connection);
    if (guest == nullptr) return drop(connection, "a message before its offer");
    if (const auto* ended = std::get_if<protocol::AgentEnded>(&*message)) return agent_ended(*guest, *ended);
    guest->leaving = true;
    report_change();
    options_.say("host " + guest->host.name + " leaves: " + std::get<protocol::HostLeaves>(*message).reason);
  }

  void welcome(transport::FrameConnection* connection, const protocol::HostOffer& offer) {
    Connection held;
    for (const Connection& stranger : strangers_) {
      if (stranger.get() == connection) held = stranger;
    }
    if (!held) return drop(connection, "a second offer");
    strangers_.erase(held);
    if (const std::string why = refusal(offer); !why.empty()) {
      held->send(protocol::encode_frame(GuestDown(protocol::HostRefused{why})));
      return held->close_after_flush();
    }
    Guest& guest = place_for(offer);
    if (guest.connection) guest.connection->close();
    guest.connection = std::move(held);
    if (!guest.unneeded.empty()) send(guest, protocol::HostUnneeded{guest.unneeded});  // its connection had broken
  }

  static std::string refusal(const protocol::HostOffer& offer) {
    if (offer.protocol_version != limits::kProtocolVersion || offer.build_id != build_id()) {
      return "this host has elastictrain " + offer.build_id + ", the run has " + build_id() +
             "; install the same on both";
    }
    if (!is_host_name(offer.host)) return "'" + offer.host + "' is not a host name";
    if (offer.slots == 0 || offer.slots > kMaxSlotsPerHost) {
      return "a host has 1 to " + std::to_string(kMaxSlotsPerHost) + " workers";
    }
    return "";
  }

  // That of the same command before its connection broke, or a new one.
  Guest& place_for(const protocol::HostOffer& offer) {
    for (auto& [name, guest] : guests_) {
      if (guest.instance == offer.instance) return guest;
    }
    for (auto& [name, guest] : guests_) {
      if (guest.instance != 0 || guest.host.slots != offer.slots || !is_name_of(name, offer.host)) continue;
      guest.instance = offer.instance;
      return guest;
    }
    const std::string name = free_name(offer.host);
    options_.say("host " + name + " joins with " + protocol::counted(offer.slots, "slot"));
    Guest& made = guests_[name];
    made.host = {name, offer.slots};
    made.instance = offer.instance;
    report_change();
    return made;
  }

  // With or without the number that free_name() appends.
  static bool is_name_of(const std::string& name, const std::string& host) {
    return name == host ||
           (name.starts_with(host + "-") && name.find_first_not_of("0123456789", host.size() + 1) == std::string::npos);
  }

  void report_change() const {
    std::vector<Host> hosts;
    for (const auto& [name, guest] : guests_) {
      if (!guest.leaving) hosts.push_back(guest.host);
    }
    changed_(hosts);
  }

  std::string free_name(const std::string& wanted) const {
    const auto is_taken = [this](const std::string& name) {
      for (const Host& host : options_.own) {
        if (host.name == name) return true;
      }
      return guests_.contains(name);
    };
    std::string name = wanted;
    for (int number = 2; is_taken(name); ++number) name = wanted + "-" + std::to_string(number);
    return name;
  }

  void agent_ended(Guest& guest, const protocol::AgentEnded& ended) {
    if (guest.agents.erase(ended.agent) == 0) return;
    sink_({ended.agent, ended.launched, ended.exit_code, ended.signal, ended.message, ended.agent_ended});
  }

  void drop(transport::FrameConnection* connection, const std::string& why) {
    options_.say("a command that offered a host was disconnected: " + why);
    connection->close();
    lost(connection, why);
  }

  void lost(const transport::FrameConnection* connection, const std::string& why) {
    std::erase_if(strangers_, [&](const Connection& stranger) { return stranger.get() == connection; });
    Guest* guest = guest_of(connection);
    if (guest == nullptr) return;
    guest->connection.reset();
    guest->lost_at = Clock::now();
    // Agents that are connected go on; one that was about to start is not waited for.
    for (const AgentId agent : std::exchange(guest->agents, {})) {
      sink_({.agent = agent, .message = guest->host.name + ": lost the command that offered this host: " + why});
    }
  }

  void end_later(LaunchEnded ended) {
    asio::post(io_, [this, ended = std::move(ended), life = std::weak_ptr<char>(life_)] {
      if (!life.expired()) sink_(ended);
    });
  }

  asio::io_context& io_;
  RendezvousOptions options_;
  std::unique_ptr<transport::Listener> listener_;
  std::set<Connection> strangers_;  // have not made an offer yet
  std::map<std::string, Guest> guests_;
  std::set<std::string> warned_;  // addresses
  std::function<void(const std::vector<Host>&)> changed_ = [](const std::vector<Host>&) {};
  LaunchSink sink_ = [](const LaunchEnded&) {};
  std::shared_ptr<char> life_ = std::make_shared<char>();
};

class OfferedHosts final : public HostSource {
 public:
  explicit OfferedHosts(Hub& hub) : hub_(hub) {}
  void poll(std::function<void(Result<std::vector<Host>>)> done) override {
    asio::post(hub_.io(), [this, done = std::move(done), life = std::weak_ptr<char>(life_)] {
      if (!life.expired()) done(hub_.offered());
    });
  }
  std::uint64_t interval_ms() const override { return kPollMs; }

 private:
  Hub& hub_;
  std::shared_ptr<char> life_ = std::make_shared<char>();
};

class GuestLauncher final : public Launcher {
 public:
  explicit GuestLauncher(Hub& hub) : hub_(hub) {}
  ~GuestLauncher() override {
    hub_.set_sink([](const LaunchEnded&) {});
  }
  Capabilities capabilities() const override { return {"the host's own command", true, false}; }
  void launch(AgentSpec spec) override { hub_.launch(spec); }
  void forget(AgentId agent) override { hub_.forget(agent); }
  std::vector<std::string> command_line(const std::string&) const override { return {"(by its own command)"}; }

 private:
  Hub& hub_;
};

std::unique_ptr<HostSource> Hub::hosts() {
  return std::make_unique<OfferedHosts>(*this);
}

std::unique_ptr<Launcher> Hub::launcher(LaunchSink sink) {
  sink_ = std::move(sink);
  return std::make_unique<GuestLauncher>(*this);
}

}  // namespace

Result<std::unique_ptr<Rendezvous>> Rendezvous::open(asio::io_context& io, RendezvousOptions options) {
  auto hub = std::make_unique<Hub>(io, std::move(options));
  if (const Status opened = hub->open(); !opened.ok()) return opened.error();
  return std::unique_ptr<Rendezvous>(std::move(hub));
}

}  // namespace elastictrain::launcher
