#include "launcher/agent/worker_queries.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/error_code.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <utility>

#include "launcher/agent/ras_client.h"
#include "launcher/process/process_identity.h"
#include "supervisor/protocol/display_text.h"

namespace elastictrain::launcher {
namespace {

constexpr std::size_t kMaxThreads = 64;
constexpr std::size_t kMaxFrames = 400;
constexpr std::size_t kMaxFrameBytes = 300;
// So that output that the tool has printed by then still arrives in time.
constexpr std::chrono::milliseconds kReadReserve{20};

std::string read_word(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  char text[256];
  const ssize_t count = ::read(file, text, sizeof text);
  ::close(file);
  std::string word(text, static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  return word.substr(0, word.find_first_of("\n\0", 0, 2));
}

const char* state_name(char state) {
  switch (state) {
    case 'R':
      return "running";
    case 'S':
      return "sleeping";
    case 'D':
      return "waiting for a device";
    case 'T':
      return "stopped by a signal";
    case 't':
      return "stopped by a debugger";
    case 'Z':
      return "ended";
    default:
      return "in an unknown state";
  }
}

// The calls in which programs wait.
std::string call_name(long number) {
  switch (number) {
    case SYS_futex:
      return "futex (a lock or condition)";
    case SYS_read:
      return "read";
    case SYS_write:
      return "write";
    case SYS_ppoll:
      return "ppoll";
    case SYS_epoll_pwait:
      return "epoll_wait";
    case SYS_pselect6:
      return "select";
    case SYS_nanosleep:
      return "nanosleep";
    case SYS_clock_nanosleep:
      return "clock_nanosleep";
    case SYS_recvfrom:
      return "recv";
    case SYS_recvmsg:
      return "recvmsg";
    case SYS_sendto:
      return "send";
    case SYS_sendmsg:
      return "sendmsg";
    case SYS_accept4:
      return "accept";
    case SYS_connect:
      return "connect";
    case SYS_wait4:
      return "wait";
    case SYS_flock:
      return "flock";
    case SYS_sched_yield:
      return "sched_yield (it polls)";
    case SYS_fsync:
      return "fsync";
    case SYS_ioctl:
      return "ioctl";
#ifdef SYS_poll
    case SYS_poll:
      return "poll";
    case SYS_epoll_wait:
      return "epoll_wait";
    case SYS_select:
      return "select";
#endif
    default:
      return "system call " + std::to_string(number);
  }
}

std::string describe_thread(const std::string& directory, const std::string& id) {
  const auto stat = read_process_stat(directory);
  if (!stat) return {};
  std::string line = "thread " + id + " \"" + read_word(directory + "/comm") + "\": " + state_name(stat->state) + ", " +
                     protocol::duration_text(std::chrono::milliseconds(stat->cpu_ms)) + " of CPU";
  const std::string call = read_word(directory + "/syscall");
  if (!call.empty() && (std::isdigit(static_cast<unsigned char>(call[0])) != 0)) {
    line += ", in " + call_name(std::atol(call.c_str()));
  }
  const std::string place = read_word(directory + "/wchan");
  if (!place.empty() && place != "0") line += ", kernel function " + place;
  return line;
}

std::vector<std::string> thread_ids(const std::string& directory) {
  std::vector<std::string> ids;
  const std::unique_ptr<DIR, int (*)(DIR*)> tasks(::opendir(directory.c_str()), ::closedir);
  while (const dirent* entry = tasks ? ::readdir(tasks.get()) : nullptr) {
    if (std::isdigit(static_cast<unsigned char>(entry->d_name[0])) != 0) ids.emplace_back(entry->d_name);
  }
  return ids;
}

std::string find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream directories(path != nullptr ? path : "/usr/bin:/bin");
  for (std::string directory; std::getline(directories, directory, ':');) {
    const std::string program = directory + "/" + name;
    if (directory.starts_with('/') && ::access(program.c_str(), X_OK) == 0) return program;
  }
  return {};
}

}  // namespace

std::vector<std::string> describe_threads(pid_t pid) {
  const std::string directory = "/proc/" + std::to_string(pid);
  const auto stat = read_process_stat(directory);
  if (!stat) return {"process " + std::to_string(pid) + " is gone"};
  const auto ids = thread_ids(directory + "/task");
  std::vector<std::string> lines{"process " + std::to_string(pid) + " \"" + read_word(directory + "/comm") +
                                 "\": " + state_name(stat->state) + ", " + protocol::counted(ids.size(), "thread") +
                                 ", " + protocol::duration_text(std::chrono::milliseconds(stat->cpu_ms)) + " of CPU"};
  for (std::size_t i = 0; i < std::min(ids.size(), kMaxThreads); ++i) {
    const std::string line = describe_thread(directory + "/task/" + ids[i], ids[i]);
    if (!line.empty()) lines.push_back(line);
  }
  if (ids.size() > kMaxThreads) lines.push_back("and " + std::to_string(ids.size() - kMaxThreads) + " more threads");
  return lines;
}

// eu-stack first: it needs a tenth of gdb's time.
std::vector<std::string> backtrace_command(pid_t pid) {
  const std::string id = std::to_string(pid);
  if (const auto tool = find_program("eu-stack"); !tool.empty()) return {tool, "-p", id};
  if (const auto tool = find_program("gdb"); !tool.empty()) {
    return {tool, "-nx", "-batch", "-p", id, "-ex", "thread apply all backtrace 32"};
  }
  return {};
}

void StackCapture::start(asio::io_context& io, pid_t pid, std::chrono::milliseconds time_limit, Done done) {
  std::make_shared<StackCapture>(io, std::move(done))->begin(io, pid, time_limit);
}

void StackCapture::begin(asio::io_context& io, pid_t pid, std::chrono::milliseconds time_limit) {
  timer_.expires_after(std::max(time_limit - kReadReserve, std::chrono::milliseconds(1)));
  timer_.async_wait([self = shared_from_this()](const asio::error_code& error) {
    if (error) return;
    if (self->tool_) self->add("the backtrace took too long");
    self->finish();
  });
  for (auto& line : describe_threads(pid)) add(std::move(line));
  CommandSpec spec;
  spec.argv = backtrace_command(pid);
  if (spec.argv.empty()) {
    add("for a backtrace install eu-stack (package elfutils) or gdb on this host");
    return finish();
  }
  spec.keep_output = false;
  const std::weak_ptr<StackCapture> weak = weak_from_this();
  auto tool = Command::start(
      io, std::move(spec),
      [weak](const std::string& line) {
        if (const auto self = weak.lock()) self->add(line);
      },
      [weak](const CommandEnd& end) {
        if (const auto self = weak.lock()) self->tool_ended(end);
      });
  if (tool) {
    tool_ = std::move(*tool);
    return;
  }
  add("no backtrace: " + tool.error().message);
  finish();
}

void StackCapture::add(std::string line) {
  if (lines_.size() < kMaxFrames && !line.empty()) lines_.push_back(line.substr(0, kMaxFrameBytes));
}

void StackCapture::tool_ended(const CommandEnd& end) {
  const std::string summary = last_line(end.error_text);
  if (end.status.exit_code != 0 || end.status.signal != 0) add("the backtrace failed: " + summary);
  tool_.reset();
  finish();
}

void StackCapture::finish() {
  timer_.cancel();
  if (tool_) std::exchange(tool_, nullptr)->terminate();
  if (const Done done = std::exchange(done_, nullptr)) done(std::move(lines_));
}

namespace {

struct Asked {
  asio::io_context& io;
  const Workers& workers;
  WorkerId worker;
  std::chrono::milliseconds limit;
  std::function<void(std::vector<std::string> lines)> done;
};

void answer_stacks(const Asked& asked) {
  const auto place = asked.workers.find(asked.worker);
  if (place == asked.workers.end()) return asked.done({"its process has ended"});
  StackCapture::start(asked.io, place->second->training_pid(), asked.limit, asked.done);
}

// A stopped worker cannot answer; the doubtful worker's own service runs in a separate thread and comes last.
std::vector<std::uint16_t> ras_ports(const Workers& workers, WorkerId doubtful) {
  constexpr std::size_t kMaxAsked = 4;
  std::vector<std::uint16_t> ports;
  const auto add = [&](const WorkerProcess& worker) {
    const auto stat = read_process_stat(worker.training_pid());
    if (worker.ras_port() != 0 && stat && !stat->stopped()) ports.push_back(worker.ras_port());
  };
  for (const auto& [id, worker] : workers) {
    if (id != doubtful && ports.size() < kMaxAsked) add(*worker);
  }
  if (const auto place = workers.find(doubtful); place != workers.end()) add(*place->second);
  return ports;
}

void answer_collectives(const Asked& asked) {
  RasClient::start(asked.io, ras_ports(asked.workers, asked.worker), asked.limit,
                   [done = asked.done, limit = asked.limit](const RasAnswer& answer) {
                     auto lines = explain_ras_answer(answer, limit);
                     if (!lines.empty()) done(std::move(lines));
                   });
}

// In the order of the enumerators.
constexpr std::array kAnswers{answer_stacks, answer_collectives};
static_assert(kAnswers.size() == protocol::kQuestionNames.size());

}  // namespace

void answer_question(asio::io_context& io, const protocol::AskAgent& asked, const Workers& workers,
                     std::function<void(std::vector<std::string> lines)> done) {
  const std::chrono::milliseconds limit(asked.time_limit_ms);
  kAnswers[static_cast<std::size_t>(asked.question)]({io, workers, asked.worker, limit, std::move(done)});
}

}  // namespace elastictrain::launcher
