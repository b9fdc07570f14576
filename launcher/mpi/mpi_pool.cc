#include "launcher/mpi/mpi_pool.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <asio/error_code.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "launcher/agent_program.h"
#include "launcher/mpi/mpi_launchers.h"
#include "launcher/process/command.h"
#include "launcher/text.h"
#include "supervisor/protocol/codec.h"

namespace elastictrain::launcher {
namespace {

constexpr const char* kFileName = "ranks";

Error failed(const std::string& what, int reason) {
  return {ErrorCode::kIo, "cannot write the start messages of the MPI pool, " + what + ": " + std::strerror(reason)};
}

// On a shared file system the key must have reached the disk before another host reads the file.
Status write_whole(const std::string& path, const std::string& text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return failed(path, errno);
  std::size_t written = 0;
  int reason = 0;
  while (written < text.size() && reason == 0) {
    const ssize_t count = ::write(file, text.data() + written, text.size() - written);
    if (count >= 0) written += static_cast<std::size_t>(count);
    if (count < 0 && errno != EINTR) reason = errno;
  }
  if (reason == 0 && ::fsync(file) != 0) reason = errno;
  ::close(file);
  return reason == 0 ? Status() : Status(failed(path, reason));
}

}  // namespace

Result<PoolFile> PoolFile::write(const std::string& directory, const std::vector<protocol::AgentBootstrap>& ranks) {
  std::error_code ignored;
  std::filesystem::create_directories(directory, ignored);
  std::string own = directory + "/.mpi-pool-XXXXXX";
  if (::mkdtemp(own.data()) == nullptr) return failed(own, errno);
  PoolFile file(own + "/" + kFileName);
  std::string text;
  for (const auto& rank : ranks) text += protocol::encode_frame(protocol::Bootstrap(rank));
  const Status written = write_whole(file.path_, text);
  if (!written) return written.error();
  return file;
}

PoolFile::PoolFile(PoolFile&& other) noexcept : path_(std::exchange(other.path_, {})) {}

PoolFile::~PoolFile() {
  if (path_.empty()) return;
  ::unlink(path_.c_str());
  ::rmdir(std::filesystem::path(path_).parent_path().c_str());
}

namespace {

constexpr std::size_t kAtOnce = 32;  // machines that are asked

std::string problem_of(const CommandEnd& end) {
  const std::string answer = last_lines(end.error_text);
  if (!answer.empty()) return answer;
  return end.timed_out ? "no answer arrived in time" : "the check ended with " + describe(end.status);
}

}  // namespace

Reachability::Reachability(asio::io_context& io, std::vector<Question> questions, std::chrono::milliseconds patience,
                           std::function<void(Absent)> done)
    : io_(io), questions_(std::move(questions)), patience_(patience), done_(std::move(done)) {
  asio::post(io_, [this, life = std::weak_ptr<char>(life_)] {
    if (!life.expired()) ask();
  });
}

Reachability::~Reachability() {
  for (const auto& [machine, command] : running_) command->terminate();
}

void Reachability::ask() {
  while (asked_ < questions_.size() && running_.size() < kAtOnce) start(questions_[asked_++]);
  if (answers_ < questions_.size()) return;
  // Moved out: the call may destroy this object.
  const auto done = std::exchange(done_, nullptr);
  if (done) done(std::move(absent_));
}

void Reachability::start(const Question& question) {
  CommandSpec spec;
  spec.argv = question.command;
  spec.deadline = patience_;
  const auto ended = [this, machine = question.machine, life = std::weak_ptr<char>(life_)](const CommandEnd& end) {
    if (!life.expired()) answered(machine, end);
  };
  auto command = Command::start(io_, std::move(spec), nullptr, ended);
  if (command)
    running_[question.machine] = std::move(*command);
  else
    count(question.machine, command.error().message);
}

void Reachability::answered(const std::string& machine, const CommandEnd& end) {
  running_.erase(machine);
  const bool answers = end.status.signal == 0 && end.status.exit_code == 0;
  count(machine, answers ? "" : problem_of(end));
  ask();
}

void Reachability::count(const std::string& machine, const std::string& problem) {
  ++answers_;
  if (!problem.empty()) absent_[machine] = problem;
}

namespace {

// All ranks are requested in quick succession; no request follows after this time.
constexpr std::chrono::milliseconds kGatherTime{3'000};

// Rank to machine, by the ranks' names.
std::map<std::string, std::string> places_of(const MpiPoolOptions& options) {
  std::map<std::string, std::string> places;
  auto rank = options.ranks.begin();
  for (const Host& machine : options.machines) {
    for (std::uint32_t slot = 0; slot < machine.slots && rank != options.ranks.end(); ++slot, ++rank) {
      places[rank->name] = machine.name;
    }
  }
  return places;
}

class MpiPool : public Launcher {
 public:
  MpiPool(asio::io_context& io, MpiPoolOptions options, LaunchSink sink, AgentProgram program)
      : io_(io),
        options_(std::move(options)),
        sink_(std::move(sink)),
        program_(std::move(program)),
        places_(places_of(options_)),
        gather_timer_(io) {}

  ~MpiPool() override {
    if (command_) command_->terminate();
  }

  Capabilities capabilities() const override { return {options_.tool.command.front(), true, false}; }
  std::vector<std::string> command_line(const std::string&) const override {
    return arguments(options_.machines, "FILE");
  }
  void launch(AgentSpec spec) override;
  void forget(AgentId agent) override;
  void adopt(const std::string& host) override { adopted_.insert(host); }

 private:
  struct Launched {
    AgentSpec spec;
    bool connected = false;
    bool replaced = false;  // another agent has been requested in its place
  };

  std::vector<std::string> arguments(const std::vector<Host>& machines, const std::string& file) const {
    return mpi_pool_command(options_.tool, options_.around, machines, {program_.path, "agent", "--mpi-pool", file});
  }
  void replace(const std::string& host);
  void gather();
  void gathered();
  bool is_alive() const;
  void begin();
  void called(std::set<std::string> machines, const Reachability::Absent& absent);
  void start_on(const std::set<std::string>& machines);
  Status start(const std::vector<std::string>& ranks);
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
  std::map<std::string, std::string> places_;  // rank to machine
  std::map<std::string, AgentSpec> waiting_;   // by host; not started yet
  std::map<AgentId, Launched> launched_;       // not reported yet; they may outlive their command
  std::set<std::string> adopted_;              // hosts whose agents another supervisor has launched
  std::unique_ptr<Reachability> reachability_;
  std::optional<PoolFile> file_;
  std::shared_ptr<Command> command_;
  bool is_whole_ = false;     // all agents of the command are or were connected
  bool is_to_begin_ = false;  // once the rest of the command has exited
  bool stop_requested_ = false;
  asio::steady_timer gather_timer_;
  std::shared_ptr<char> life_ = std::make_shared<char>();  // callbacks that come too late find it expired
};

template <class Work>
void MpiPool::later(Work work) {
  asio::post(io_, [work = std::move(work), life = std::weak_ptr<char>(life_)] {
    if (!life.expired()) work();
  });
}

void MpiPool::launch(AgentSpec spec) {
  const std::string host = spec.host;
  replace(host);
  waiting_.insert_or_assign(host, std::move(spec));
  gather();
  later([this] {
    if (waiting_.size() == options_.ranks.size()) begin();
  });
}

// A new request for a host means that the agent that was there is lost.
void MpiPool::replace(const std::string& host) {
  adopted_.erase(host);
  for (auto& [agent, launched] : launched_) {
    if (launched.spec.host == host) launched.replaced = true;
  }
  if (command_) return;
  std::erase_if(launched_, [this](const auto& entry) {
    if (!entry.second.replaced) return false;
    later([this, agent = entry.first, host = entry.second.spec.host] {
      sink_({agent, true, 0, 0, host + ": its MPI launch has ended", false});
    });
    return true;
  });
}

void MpiPool::gather() {
  gather_timer_.expires_after(kGatherTime);
  gather_timer_.async_wait([this, life = std::weak_ptr<char>(life_)](const asio::error_code& error) {
    if (!error && !life.expired()) gathered();
  });
}

void MpiPool::gathered() {
  if (waiting_.empty()) return;
  if (!is_alive()) return begin();
  refuse_waiting("its MPI rank exited, and MPI accepts no new process while the others run");
}

bool MpiPool::is_alive() const {
  return !adopted_.empty() || std::any_of(launched_.begin(), launched_.end(), [](const auto& entry) {
    return entry.second.connected && !entry.second.replaced;
  });
}

// The rest of an earlier launch ends first; its end leads here again. Then machines that do not answer are left out,
// because one of them would end the whole launch.
void MpiPool::begin() {
  if (reachability_) return;
  gather_timer_.cancel();
  is_to_begin_ = command_ != nullptr;
  if (command_) return command_->terminate();
  std::set<std::string> machines;
  for (const auto& [rank, spec] : waiting_) machines.insert(places_.at(rank));
  std::vector<Reachability::Question> questions;
  for (const std::string& machine : machines) {
    auto question = options_.question ? options_.question(machine) : std::vector<std::string>();
    if (!question.empty()) questions.push_back({machine, std::move(question)});
  }
  if (questions.empty()) return start_on(machines);
  const std::chrono::milliseconds patience(options_.start_timeout_ms);
  reachability_ = std::make_unique<Reachability>(
      io_, std::move(questions), patience,
      [this, machines](const Reachability::Absent& absent) { called(machines, absent); });
}

void MpiPool::called(std::set<std::string> machines, const Reachability::Absent& absent) {
  for (const auto& [machine, problem] : absent) machines.erase(machine);
  later([this, machines] {
    reachability_.reset();
    start_on(machines);
  });
  for (const Host& rank : options_.ranks) {
    const auto problem = absent.find(places_.at(rank.name));
    if (problem == absent.end()) continue;
    if (const auto waiting = waiting_.extract(rank.name)) {
      refuse(waiting.mapped(), problem->first + " does not answer: " + problem->second);
    }
  }
}

void MpiPool::start_on(const std::set<std::string>& machines) {
  std::vector<std::string> ranks;
  for (const Host& rank : options_.ranks) {
    if (waiting_.contains(rank.name) && machines.contains(places_.at(rank.name))) ranks.push_back(rank.name);
  }
  if (!ranks.empty()) {
    if (const Status started = start(ranks); !started) return refuse_waiting(started.error().message);
  }
  if (!waiting_.empty()) gather();
}

Status MpiPool::start(const std::vector<std::string>& ranks) {
  std::vector<protocol::AgentBootstrap> bootstraps;
  std::vector<Host> machines;
  for (const std::string& rank : ranks) {
    bootstraps.push_back(waiting_.at(rank).bootstrap);
    const std::string& machine = places_.at(rank);
    if (machines.empty() || machines.back().name != machine) machines.push_back({machine, 0});
    ++machines.back().slots;
  }
  auto file = PoolFile::write(options_.directory, bootstraps);
  if (!file) return file.error();
  CommandSpec spec;
  spec.argv = arguments(machines, file->path());
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
  is_whole_ = false;
  stop_requested_ = false;
  for (const std::string& rank : ranks) {
    auto waiting = waiting_.extract(rank);
    launched_[waiting.mapped().agent] = {std::move(waiting.mapped())};
  }
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
  is_whole_ = true;
  command_->clear_deadline();
  file_.reset();
}

// If the pool was complete, agents may outlive the launch; their connections show it.
void MpiPool::ended(const CommandEnd& end) {
  command_.reset();
  file_.reset();
  const bool in_order = end.status.signal == 0 && end.status.exit_code == 0;
  const bool may_live = is_whole_ && !in_order && !stop_requested_;
  const std::string message = explain(end);
  std::vector<Launched> over;  // agents that never connected come first: the message is about them
  for (const bool connected : {false, true}) {
    for (const auto& [agent, launched] : launched_) {
      const bool lives_on = launched.connected && may_live && !launched.replaced;
      if (launched.connected == connected && !lives_on) over.push_back(launched);
    }
  }
  for (const Launched& launched : over) launched_.erase(launched.spec.agent);
  for (const Launched& launched : over) {
    // Reported once in full: it is one command.
    const std::string& first = over.front().spec.host;
    const std::string& host = launched.spec.host;
    sink_({launched.spec.agent, launched.connected, end.status.exit_code, end.status.signal,
           host + ": " + (host == first ? message : "the MPI launch failed; see " + first + "'s error"),
           launched.connected && in_order});
  }
  if (std::exchange(is_to_begin_, false)) begin();
}

std::string MpiPool::explain(const CommandEnd& end) const {
  const std::string name = options_.tool.command.front();
  const std::string answer = first_lines(end.error_text);
  if (stop_requested_) return "stopped on request";
  if (end.timed_out) {
    return name + " did not start all ranks in time: " +
           (answer.empty() ? "do all hosts answer, have " + program_.path + " and see " + options_.directory + "?"
                           : answer);
  }
  return name + " ended with " + describe(end.status) + (answer.empty() ? "" : ": " + answer);
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
  if (!command_) return;
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
