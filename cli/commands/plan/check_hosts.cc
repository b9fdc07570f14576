#include "cli/commands/plan/check_hosts.h"

#include <algorithm>
#include <asio/error_code.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <optional>

#include "cli/commands/run/launchers.h"
#include "cli/config/text.h"
#include "cli/output/figures.h"
#include "launcher/agent_program.h"
#include "supervisor/protocol/codec.h"
#include "supervisor/protocol/limits.h"
#include "supervisor/transport/frame_connection.h"

namespace elastictrain::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Time for agents to end after the request, before their processes are killed.
constexpr std::chrono::milliseconds kGoodbye{3'000};
// A driver takes seconds to wake its GPUs.
constexpr std::uint64_t kLongestProbe_ms = 60'000;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

std::int64_t wall_clock_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// That the built-in trainer reads.
std::vector<std::string> files_of(const RunConfig& config) {
  std::vector<std::string> files;
  if (!config.use_trainer) return files;
  for (const std::string& list : {config.trainer.train, config.trainer.test}) {
    for (std::string& file : split(list, ',')) files.push_back(std::move(file));
  }
  return files;
}

class HostCheck {
 public:
  HostCheck(const RunConfig& config, const RunPlan& plan)
      : config_(config), plan_(plan), key_(transport::make_key()), deadline_(io_) {}

  Result<std::vector<HostReport>> run() {
    auto launcher =
        make_launcher(io_, config_, plan_, [this](const launcher::LaunchEnded& ended) { launch_ended(ended); });
    if (!launcher.ok()) return launcher.error();
    launcher_ = std::move(*launcher);
    auto listener = transport::listen(
        io_, {.addresses = plan_.listen_addresses, .port = static_cast<std::uint16_t>(config_.network.port)}, key_,
        [this](std::shared_ptr<transport::FrameConnection> connection) { accepted(std::move(connection)); },
        [](const std::string&, const std::string&) {});
    if (!listener.ok()) return listener.error();
    listener_ = std::move(*listener);
    for (const launcher::Host& host : plan_.hosts) launch(host);
    limit(std::chrono::milliseconds(config_.timeouts.start_ms), [this] { give_up(); });
    io_.run();
    return take_reports();
  }

 private:
  struct Attempt {
    HostReport report;
    Clock::time_point launched;
    Clock::time_point asked;
    std::int64_t asked_wall_us = 0;
    std::shared_ptr<transport::FrameConnection> connection;
    bool settled = false;  // reached, or known to be unreachable
    bool ended = false;    // no process of its launch is left
  };

  void launch(const launcher::Host& host) {
    const AgentId id{++last_id_};
    Attempt& attempt = attempts_[id];
    attempt.report.host = host.name;
    attempt.report.slots = host.slots;
    attempt.launched = Clock::now();
    protocol::AgentBootstrap bootstrap;
    bootstrap.protocol_version = limits::kProtocolVersion;
    bootstrap.run_name = "check";
    bootstrap.agent = id;
    bootstrap.host = host.name;
    bootstrap.addresses = plan_.advertise_addresses;
    bootstrap.port = listener_->port();
    bootstrap.key = key_;
    bootstrap.connect_timeout_ms = config_.launcher.connect_timeout_ms;
    bootstrap.heartbeat_ms = config_.timeouts.heartbeat_ms;
    // We send nothing while its driver wakes the GPUs.
    bootstrap.worker_dead_ms = std::max(config_.timeouts.worker_dead_ms, config_.timeouts.start_ms);
    bootstrap.interface = config_.network.interface;
    launcher_->launch({id, host.name, std::move(bootstrap)});
  }

  void accepted(std::shared_ptr<transport::FrameConnection> connection) {
    const auto kept = connection;
    connections_.push_back(kept);
    kept->start([this, raw = kept.get()](const std::string& body) { received(*raw, body); }, [](const Error&) {});
  }

  void received(transport::FrameConnection& connection, const std::string& body) {
    auto message = protocol::decode_body<protocol::AgentUp>(body);
    if (!message.ok()) return;
    if (const auto* hello = std::get_if<protocol::AgentHello>(&*message)) return greet(connection, *hello);
    if (const auto* facts = std::get_if<protocol::HostFacts>(&*message)) return take_facts(connection, *facts);
    if (auto* found = std::get_if<protocol::AcceleratorFacts>(&*message)) settle(connection, std::move(*found));
  }

  void greet(transport::FrameConnection& connection, const protocol::AgentHello& hello) {
    const auto found = attempts_.find(hello.agent);
    if (found == attempts_.end() || found->second.connection != nullptr) return;
    Attempt& attempt = found->second;
    for (const auto& known : connections_) {
      if (known.get() == &connection) attempt.connection = known;
    }
    attempt.report.connected_from = connection.remote_address();
    attempt.report.start_s = seconds_between(attempt.launched, Clock::now());
    attempt.asked = Clock::now();
    attempt.asked_wall_us = wall_clock_us();
    connection.send(protocol::encode_frame(protocol::AgentDown(protocol::CheckHost{
        plan_.program.environment, std::min<std::uint64_t>(config_.timeouts.start_ms / 2, kLongestProbe_ms),
        plan_.program.argv, plan_.program.working_directory, files_of(config_)})));
  }

  Attempt* find(const transport::FrameConnection& connection) {
    for (auto& [id, attempt] : attempts_) {
      if (attempt.connection.get() == &connection && !attempt.settled) return &attempt;
    }
    return nullptr;
  }

  void take_facts(transport::FrameConnection& connection, const protocol::HostFacts& facts) {
    Attempt* attempt = find(connection);
    if (attempt == nullptr || attempt->report.reached) return;
    HostReport& report = attempt->report;
    report.reached = true;
    report.binary_version = facts.binary_version;
    report.cores = facts.cores;
    report.memory_bytes = facts.memory_bytes;
    report.gpus = facts.gpus;
    report.kernel_driver = facts.kernel_driver;
    report.interface = facts.interface;
    report.addresses = facts.addresses;
    report.interface_problem = facts.interface_problem;
    report.nccl_interface = facts.nccl_interface;
    report.program_problem = facts.program_problem;
    report.program_status = facts.program_status;
    report.missing_file = facts.missing_file;
    report.interpreter = facts.interpreter;
    report.accelerators.problem = "its agent did not report which libraries programs can load";
    report.round_trip_s = seconds_between(attempt->asked, Clock::now());
    const double middle_us = static_cast<double>(attempt->asked_wall_us) + report.round_trip_s * 5e5;
    report.clock_difference_s = (static_cast<double>(facts.wall_clock_us) - middle_us) / 1e6;
  }

  void settle(transport::FrameConnection& connection, protocol::AcceleratorFacts found) {
    Attempt* attempt = find(connection);
    if (attempt == nullptr) return;
    attempt->report.accelerators = std::move(found);
    attempt->settled = true;
    connection.send(protocol::encode_frame(protocol::AgentDown(protocol::StopAgent{0})));
    look_whether_done();
  }

  void launch_ended(const launcher::LaunchEnded& ended) {
    const auto found = attempts_.find(ended.agent);
    if (found == attempts_.end()) return;
    Attempt& attempt = found->second;
    attempt.ended = true;
    if (!attempt.settled) {
      attempt.settled = true;
      attempt.report.reached = false;
      attempt.report.problem = ended.message.empty() ? "the agent ended before it connected" : ended.message;
    }
    look_whether_done();
  }

  void give_up() {
    for (auto& [id, attempt] : attempts_) {
      if (attempt.settled) continue;
      attempt.settled = true;
      if (attempt.report.reached) continue;
      attempt.report.problem =
          "no answer within " + format_duration(static_cast<double>(config_.timeouts.start_ms) / 1e3);
    }
    look_whether_done();
  }

  void look_whether_done() {
    const bool settled =
        std::all_of(attempts_.begin(), attempts_.end(), [](const auto& a) { return a.second.settled; });
    const bool ended = std::all_of(attempts_.begin(), attempts_.end(), [](const auto& a) { return a.second.ended; });
    if (ended) return clear_away();
    if (!settled || parting_) return;
    parting_ = true;
    limit(kGoodbye, [this] { forget_all(); });
  }

  void forget_all() {
    for (auto& [id, attempt] : attempts_) {
      if (!attempt.ended) launcher_->forget(id);
    }
    limit(kGoodbye, [this] { clear_away(); });
  }

  void clear_away() {
    deadline_.cancel();
    listener_->stop();
    for (const auto& connection : connections_) connection->close();
    io_.stop();
  }

  template <class Handler>
  void limit(std::chrono::milliseconds time, Handler handler) {
    deadline_.expires_after(time);
    deadline_.async_wait([handler](const asio::error_code& error) {
      if (!error) handler();
    });
  }

  std::vector<HostReport> take_reports() {
    std::vector<HostReport> reports;
    for (auto& [id, attempt] : attempts_) reports.push_back(std::move(attempt.report));
    return reports;
  }

  const RunConfig& config_;
  const RunPlan& plan_;
  const transport::Key key_;
  asio::io_context io_{1};
  asio::steady_timer deadline_;
  std::map<AgentId, Attempt> attempts_;
  std::vector<std::shared_ptr<transport::FrameConnection>> connections_;
  std::unique_ptr<launcher::Launcher> launcher_;
  std::unique_ptr<transport::Listener> listener_;
  std::uint32_t last_id_ = 0;
  bool parting_ = false;
};

}  // namespace

Result<std::vector<HostReport>> check_hosts(const RunConfig& config, const RunPlan& plan) {
  return HostCheck(config, plan).run();
}

}  // namespace elastictrain::cli
