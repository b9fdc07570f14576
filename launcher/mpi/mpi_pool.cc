#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "launcher/agent_marker.h"
#include "launcher/command.h"
#include "launcher/mpi/mpi_launchers.h"
#include "launcher/mpi/pool_file.h"
#include "launcher/tool_words.h"

namespace elastictrain::launcher {
namespace {

// All ranks are asked for in one breath; who is still alone after this was lost alone.
constexpr std::chrono::milliseconds kGatherTime{3'000};

class MpiPool : public Launcher {
 public:
  MpiPool(asio::io_context& io, MpiPoolOptions options, LaunchSink sink, AgentProgram program)
      : io_(io),
        options_(std::move(options)),
        sink_(std::move(sink)),
        program_(std::move(program)),
        gather_timer_(io) {}

  ~MpiPool() override {
    if (command_) command_->terminate();
  }

  Capabilities capabilities() const override { return {options_.tool.command.front(), true, false}; }
  std::vector<std::string> command_line(const std::string&) const override { return words("FILE"); }
  void launch(AgentSpec spec) override;
  void forget(AgentId agent) override;

 private:
  struct Launched {
    AgentSpec spec;
    bool connected = false;
  };

  std::vector<std::string> words(const std::string& file) const {
    return mpi_pool_command(options_.tool, options_.around, options_.machines,
                            {program_.path, "agent", "--mpi-pool", file});
  }
  void start_when_whole();
  Status start();
  void saw_line(const std::string& line);
  void ended(const CommandEnd& end);
  std::string explain(const CommandEnd& end) const;
  void refuse_waiting(const std::string& why);
  void refuse(const AgentSpec& spec, const std::string& why);
  template <class Work>
  void later(Work work);

  asio::io_context& io_;
  MpiPoolOptions options_;
  LaunchSink sink_;
  AgentProgram program_;
  std::map<std::string, AgentSpec> waiting_;  // by host; not started yet
  std::map<AgentId, Launched> launched_;      // of the command, and not reported yet
  std::optional<PoolFile> file_;
  std::shared_ptr<Command> command_;
  bool has_started_ = false;
  bool stop_requested_ = false;
  asio::steady_timer gather_timer_;
  std::shared_ptr<char> life_ = std::make_shared<char>();  // callbacks that come too late find it gone
};

template <class Work>
void MpiPool::later(Work work) {
  asio::post(io_, [work = std::move(work), life = std::weak_ptr<char>(life_)] {
    if (!life.expired()) work();
  });
}

void MpiPool::launch(AgentSpec spec) {
  const std::string host = spec.host;
  waiting_.insert_or_assign(host, std::move(spec));
  gather_timer_.expires_after(kGatherTime);
  gather_timer_.async_wait([this, life = std::weak_ptr<char>(life_)](const asio::error_code& error) {
    if (error || life.expired()) return;
    refuse_waiting(has_started_ ? "its MPI rank ended, and MPI takes nobody in again while the others go on"
                                : "MPI starts all " + std::to_string(options_.ranks.size()) + " ranks at once, and only " +
                                      std::to_string(waiting_.size()) + " were asked for");
  });
  later([this] { start_when_whole(); });
}

// What is left of an earlier launch ends first; its end leads here again.
void MpiPool::start_when_whole() {
  if (waiting_.size() < options_.ranks.size()) return;
  if (command_) return command_->terminate();
  gather_timer_.cancel();
  if (const Status started = start(); !started) refuse_waiting(started.error().message);
}

Status MpiPool::start() {
  std::vector<protocol::AgentBootstrap> bootstraps;
  for (const Host& rank : options_.ranks) bootstraps.push_back(waiting_.at(rank.name).bootstrap);
  auto file = PoolFile::write(options_.directory, bootstraps);
  if (!file) return file.error();
  CommandSpec spec;
  spec.argv = words(file->path());
  spec.keep_output = false;
  spec.deadline = std::chrono::milliseconds(options_.start_timeout_ms);
  const std::weak_ptr<char> life = life_;
  const auto on_line = [this, life](const std::string& line) {
    if (!life.expired()) saw_line(line);
  };
  const auto on_end = [this, life](const CommandEnd& end) {
    if (!life.expired()) ended(end);
  };
  auto command = Command::start(io_, std::move(spec), on_line, on_end);
  if (!command) return command.error();
  command_ = std::move(*command);
  file_.emplace(std::move(*file));
  has_started_ = true;
  stop_requested_ = false;
  for (auto& [host, waiting] : waiting_) launched_[waiting.agent] = {std::move(waiting)};
  waiting_.clear();
  return {};
}

void MpiPool::saw_line(const std::string& line) {
  const std::string_view marker = kConnectedLine;
  const std::size_t place = line.find(marker);
  if (place == std::string::npos) return;
  const AgentId agent{static_cast<std::uint32_t>(std::strtoul(line.c_str() + place + marker.size(), nullptr, 10))};
  const auto found = launched_.find(agent);
  if (found == launched_.end()) return;
  found->second.connected = true;
  const bool all = std::all_of(launched_.begin(), launched_.end(), [](const auto& l) { return l.second.connected; });
  if (!all) return;
  command_->clear_deadline();
  file_.reset();
}

void MpiPool::ended(const CommandEnd& end) {
  command_.reset();
  file_.reset();
  const bool in_order = end.status.signal == 0 && end.status.exit_code == 0;
  std::string message = explain(end);
  std::string first;
  for (const auto& [agent, launched] : std::exchange(launched_, {})) {
    const std::string& host = launched.spec.host;
    // Said once at length: it is one command.
    sink_({agent, launched.connected, end.status.exit_code, end.status.signal,
           host + ": " + (first.empty() ? message : "the MPI launch failed as " + first + " says"),
           launched.connected && in_order});
    if (first.empty()) first = host;
  }
  start_when_whole();
}

std::string MpiPool::explain(const CommandEnd& end) const {
  const std::string name = options_.tool.command.front();
  const std::string said = first_words(end.error_text);
  if (stop_requested_) return "stopped on request";
  if (end.timed_out) {
    return name + " did not start all ranks in time: " +
           (said.empty() ? "do all hosts answer, have " + program_.path + " and see " + options_.directory + "?"
                         : said);
  }
  return name + " ended with " + describe(end.status) + (said.empty() ? "" : ": " + said);
}

void MpiPool::refuse_waiting(const std::string& why) {
  for (const auto& [host, spec] : std::exchange(waiting_, {})) refuse(spec, why);
}

void MpiPool::refuse(const AgentSpec& spec, const std::string& why) {
  sink_({spec.agent, false, 0, 0, spec.host + ": " + why, false});
}

// A rank that has not answered leaves the others without a pool: MPI waits for all of them.
void MpiPool::forget(AgentId agent) {
  const auto waiting =
      std::find_if(waiting_.begin(), waiting_.end(), [agent](const auto& w) { return w.second.agent == agent; });
  if (waiting != waiting_.end()) {
    later([this, spec = std::move(waiting->second)] { refuse(spec, "stopped on request before it was started"); });
    waiting_.erase(waiting);
    return;
  }
  const auto found = launched_.find(agent);
  if (found == launched_.end()) return;
  if (found->second.connected) {
    later([this, agent, host = found->second.spec.host] {
      sink_({agent, true, 0, 0, host + ": stopped on request", false});
    });
    launched_.erase(found);
    if (!launched_.empty()) return;
  }
  stop_requested_ = true;
  command_->terminate();
}

}  // namespace

std::vector<Host> pool_ranks(const std::vector<Host>& machines, bool machines_are_known) {
  std::vector<Host> ranks;
  for (const Host& machine : machines) {
    const std::string place = machines.size() > 1 && machines_are_known ? "@" + machine.name : "";
    for (std::uint32_t slot = 0; slot < machine.slots; ++slot) {
      ranks.push_back({"mpi" + std::to_string(ranks.size()) + place, 1});
    }
  }
  return ranks;
}

std::unique_ptr<Launcher> make_mpi_pool(asio::io_context& io, MpiPoolOptions options, LaunchSink sink,
                                        AgentProgram program) {
  return std::make_unique<MpiPool>(io, std::move(options), std::move(sink), std::move(program));
}

}  // namespace elastictrain::launcher
