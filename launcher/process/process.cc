#include "launcher/process/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <asio/error_code.hpp>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

namespace elastictrain::launcher {
namespace {

Result<StreamEnds> open_path(const std::string& path, int flags) {
  StreamEnds stream;
  stream.child.reset(::open(path.c_str(), flags | O_CLOEXEC));
  if (stream.child.get() < 0) return system_error("cannot open " + path, errno);
  return stream;
}

Result<StreamEnds> open_stream(Stream kind, int number) {
  if (kind == Stream::kPipe) return open_pipe(number == 0);
  if (kind == Stream::kNull) return open_path("/dev/null", number == 0 ? O_RDONLY : O_WRONLY);
  StreamEnds stream;
  stream.child.reset(::fcntl(number, F_DUPFD_CLOEXEC, 3));
  if (stream.child.get() < 0) return system_error("cannot pass on descriptor " + std::to_string(number), errno);
  return stream;
}

}  // namespace

void Fd::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

Error system_error(const std::string& what, int error) {
  const bool out_of_files = error == EMFILE || error == ENFILE;
  return {ErrorCode::kIo,
          what + ": " + std::strerror(error) +
              (out_of_files ? "; allow more open files (ulimit -n) or fewer workers on this host" : "")};
}

Result<StreamEnds> open_pipe(bool parent_writes) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_error("cannot make a pipe", errno);
  StreamEnds stream;
  stream.child.reset(ends[parent_writes ? 0 : 1]);
  stream.parent.reset(ends[parent_writes ? 1 : 0]);
  return stream;
}

Result<Streams> open_streams(const ProcessSpec& spec) {
  const Stream kinds[3] = {spec.standard_input, spec.standard_output, spec.standard_error};
  Streams streams;
  for (int number = 0; number < 3; ++number) {
    const bool is_file = number == 0 && !spec.input_file.empty();
    auto ends = is_file ? open_path(spec.input_file, O_RDONLY) : open_stream(kinds[number], number);
    if (!ends) return ends.error();
    streams.child[number] = std::move(ends->child);
    streams.parent[number] = std::move(ends->parent);
  }
  return streams;
}

}  // namespace elastictrain::launcher

extern char** environ;

namespace elastictrain::launcher {
namespace {

constexpr int kReapTimeoutMs = 2000;
constexpr int kUnknownStatus = 70;

// The limit before raise_descriptor_limit(); if it is not set, it is not restored.
rlimit original_limit{};
bool limit_is_raised = false;

// All children that a Process has started and not reaped yet.
class WatchedChildren {
 public:
  void add(pid_t pid) {
    const std::lock_guard lock(mutex_);
    pids_.insert(pid);
  }
  void remove(pid_t pid) {
    const std::lock_guard lock(mutex_);
    pids_.erase(pid);
  }
  bool contains(pid_t pid) {
    const std::lock_guard lock(mutex_);
    return pids_.contains(pid);
  }

 private:
  std::mutex mutex_;
  std::unordered_set<pid_t> pids_;
};

WatchedChildren& watched_children() {
  static WatchedChildren children;
  return children;
}

struct ChildPlan {
  std::vector<char*> argv;
  std::vector<char*> environment;
  int descriptors[3] = {-1, -1, -1};
  const ProcessSpec* spec = nullptr;
  pid_t parent = 0;
  int report = -1;
  cpu_set_t processors = {};
};

// The child's report through its pipe when it cannot become the program.
struct ChildFailure {
  enum Stage : int { kDirectory = 1, kStreams, kExec, kProcessors } stage;
  int error;
};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const auto& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

[[noreturn]] void report_and_exit(const ChildPlan& plan, ChildFailure::Stage stage) {
  const ChildFailure failure{stage, errno};
  [[maybe_unused]] const auto written = ::write(plan.report, &failure, sizeof failure);
  ::_exit(127);
}

// From here to exec only async-signal-safe calls are made: the parent may have other threads.
void reset_signals() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) ::sigaction(number, &action, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

void close_on_exec_from(unsigned first) {
  constexpr unsigned kCloexec = 4;  // CLOSE_RANGE_CLOEXEC, which older headers lack
  if (::syscall(SYS_close_range, first, ~0u, kCloexec) == 0) return;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const int end = limit.rlim_cur < 65536 ? static_cast<int>(limit.rlim_cur) : 65536;
  for (int fd = static_cast<int>(first); fd < end; ++fd) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
}

void place_streams(ChildPlan& plan) {
  // Moved above 2 first, so that no dup2 overwrites one that is still needed.
  for (int& fd : plan.descriptors) {
    fd = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (fd < 0) report_and_exit(plan, ChildFailure::kStreams);
  }
  for (int number = 0; number < 3; ++number) {
    if (::dup2(plan.descriptors[number], number) < 0) report_and_exit(plan, ChildFailure::kStreams);
  }
}

void die_with_parent(const ChildPlan& plan) {
  if (plan.spec->parent_death_signal == 0) return;
  ::prctl(PR_SET_PDEATHSIG, plan.spec->parent_death_signal);
  if (::getppid() != plan.parent) ::_exit(127);
}

void let_debuggers_look(const ChildPlan& plan) {
#ifdef PR_SET_PTRACER
  if (plan.spec->traceable) ::prctl(PR_SET_PTRACER, plan.parent);
#endif
}

void bind_to_processors(const ChildPlan& plan) {
  if (plan.spec->processors.empty()) return;
  const bool bound = ::sched_setaffinity(0, sizeof plan.processors, &plan.processors) == 0;
  if (!bound) report_and_exit(plan, ChildFailure::kProcessors);
}

[[noreturn]] void become_program(ChildPlan& plan) {
  if (plan.spec->new_session)
    ::setsid();
  else if (plan.spec->new_group)
    ::setpgid(0, 0);
  die_with_parent(plan);
  let_debuggers_look(plan);
  if (limit_is_raised) ::setrlimit(RLIMIT_NOFILE, &original_limit);
  place_streams(plan);
  reset_signals();
  bind_to_processors(plan);
  const auto& directory = plan.spec->working_directory;
  if (!directory.empty() && ::chdir(directory.c_str()) != 0) report_and_exit(plan, ChildFailure::kDirectory);
  close_on_exec_from(3);
  for (const int descriptor : plan.spec->inherited_descriptors) ::fcntl(descriptor, F_SETFD, 0);
  environ = plan.environment.data();
  ::execvp(plan.argv[0], plan.argv.data());
  report_and_exit(plan, ChildFailure::kExec);
}

Error describe(const ChildFailure& failure, const ProcessSpec& spec) {
  const std::string program = "cannot run \"" + spec.argv[0] + "\"";
  if (failure.stage == ChildFailure::kDirectory) {
    return system_error(program + " in directory " + spec.working_directory, failure.error);
  }
  if (failure.stage == ChildFailure::kProcessors) return system_error(program + " on its processors", failure.error);
  if (failure.stage == ChildFailure::kStreams)
    return system_error(program + ", its streams cannot be set up", failure.error);
  return system_error(program, failure.error);
}

// Returns once the child has become the program (the pipe closes) or has reported why not.
Status await_exec(int report, const ProcessSpec& spec) {
  ChildFailure failure{};
  ssize_t count = 0;
  do {
    count = ::read(report, &failure, sizeof failure);
  } while (count < 0 && errno == EINTR);
  if (count == 0) return {};
  if (count != sizeof failure) return system_error("cannot run \"" + spec.argv[0] + "\"", EIO);
  return describe(failure, spec);
}

// A parent that ignores SIGCHLD (inherited from its caller) would lose its children's exit statuses.
void keep_exit_statuses() {
  struct sigaction action {};
  ::sigaction(SIGCHLD, nullptr, &action);
  if (action.sa_handler == SIG_IGN) ::signal(SIGCHLD, SIG_DFL);
}

Result<Fd> open_pidfd(pid_t pid) {
  Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (pidfd.get() < 0) return system_error("cannot watch the process (pidfd, Linux 5.3 or later)", errno);
  return pidfd;
}

ExitStatus to_exit_status(const siginfo_t& info, const rusage& usage) {
  constexpr std::uint64_t kUnit = 1024;
  const std::uint64_t peak_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * kUnit;
  if (info.si_code == CLD_EXITED) return {info.si_status, 0, peak_bytes};
  return {0, info.si_status, peak_bytes};
}

}  // namespace

Process::Process(asio::io_context& io) : pidfd_(io), input_(io), output_(io), error_(io) {}

Result<std::unique_ptr<Process>> Process::spawn(asio::io_context& io, const ProcessSpec& spec, ExitHandler on_exit) {
  if (spec.argv.empty() || spec.argv[0].empty()) return Error{ErrorCode::kInvalid, "there is no program to run"};
  auto streams = open_streams(spec);
  if (!streams) return streams.error();
  auto report = open_pipe(false);
  if (!report) return report.error();
  keep_exit_statuses();
  ChildPlan plan{pointers(spec.argv),
                 pointers(spec.environment),
                 {streams->child[0].get(), streams->child[1].get(), streams->child[2].get()},
                 &spec,
                 ::getpid(),
                 report->child.get()};
  for (const int processor : spec.processors) CPU_SET(processor, &plan.processors);
  const pid_t pid = ::fork();
  if (pid == 0) become_program(plan);
  if (pid < 0) return system_error("cannot start another process", errno);
  report->child.reset(-1);
  const Status started = await_exec(report->parent.get(), spec);
  auto pidfd = started ? open_pidfd(pid) : Result<Fd>(started.error());
  if (!pidfd) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return pidfd.error();
  }
  return watched(io, pid, std::move(*pidfd), std::move(*streams), spec, std::move(on_exit));
}

Result<std::unique_ptr<Process>> Process::adopt(asio::io_context& io, ForkedChild child, const ProcessSpec& spec,
                                                ExitHandler on_exit) {
  auto pidfd = open_pidfd(child.pid);
  if (!pidfd) return pidfd.error();
  siginfo_t info{};
  const bool is_ours = ::waitid(P_PID, static_cast<id_t>(child.pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
  if (!is_ours || is_watched_child(child.pid)) {
    return Error{ErrorCode::kIo, "process " + std::to_string(child.pid) + " is no child of this one"};
  }
  auto process = watched(io, child.pid, std::move(*pidfd), std::move(child.streams), spec, std::move(on_exit));
  const char go = 1;
  (void)::send(child.hold.get(), &go, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  return process;
}

std::unique_ptr<Process> Process::watched(asio::io_context& io, pid_t pid, Fd pidfd, Streams streams,
                                          const ProcessSpec& spec, ExitHandler on_exit) {
  std::unique_ptr<Process> process(new Process(io));
  process->pid_ = pid;
  process->running_ = true;
  watched_children().add(pid);
  process->owns_group_ = spec.new_group || spec.new_session;
  process->kill_group_at_exit_ = spec.kill_group_at_exit && process->owns_group_;
  process->pidfd_.assign(pidfd.release());
  asio::posix::stream_descriptor* ends[3] = {&process->input_, &process->output_, &process->error_};
  for (int number = 0; number < 3; ++number) {
    if (streams.parent[number].get() >= 0) ends[number]->assign(streams.parent[number].release());
  }
  process->watch(std::move(on_exit));
  return process;
}

Process::~Process() {
  if (!running_) return;
  if (lives_on_) {
    watched_children().remove(pid_);
    return;
  }
  if (owns_group_) ::kill(-pid_, SIGKILL);
  ::kill(pid_, SIGKILL);
  pollfd ended{pidfd_.native_handle(), POLLIN, 0};
  ::poll(&ended, 1, kReapTimeoutMs);
  ::waitpid(pid_, nullptr, WNOHANG);
  watched_children().remove(pid_);
}

void Process::signal(int number) {
  if (running_) ::kill(pid_, number);
}

void Process::signal_group(int number) {
  if (running_ && owns_group_) ::kill(-pid_, number);
}

// The loop owns the handler, not this object: a holder that keeps itself alive through it is destroyed with the loop.
void Process::watch(ExitHandler on_exit) {
  const std::weak_ptr<char> life = life_;
  pidfd_.async_wait(asio::posix::stream_descriptor::wait_read,
                    [this, life, on_exit = std::move(on_exit)](const asio::error_code& error) mutable {
                      if (!error && !life.expired()) reap(std::move(on_exit));
                    });
}

// Of the child; si_pid is 0 while it runs. Nothing: another part of the program has reaped it.
std::optional<siginfo_t> Process::look(int options, rusage* usage) const {
  siginfo_t info{};
  // The system call, other than the C library's function, says what the process has used.
  if (::syscall(SYS_waitid, P_PID, pid_, &info, WEXITED | WNOHANG | options, usage) != 0) return std::nullopt;
  return info;
}

void Process::reap(ExitHandler on_exit) {
  // The loop may call too early: it attributes a late event of a closed descriptor to the next one that is opened.
  const auto seen = look(WNOWAIT);
  if (seen && seen->si_pid == 0) return watch(std::move(on_exit));
  // The unreaped child still holds its id, so the group that is killed here cannot belong to another process.
  if (kill_group_at_exit_) ::kill(-pid_, SIGKILL);
  rusage usage{};
  const auto info = look(0, &usage);
  running_ = false;
  watched_children().remove(pid_);
  asio::error_code ignored;
  pidfd_.close(ignored);
  // Another part of the program has reaped it: an unknown status must not pass for success.
  if (on_exit) on_exit(info ? to_exit_status(*info, usage) : ExitStatus{kUnknownStatus, 0});
}

bool is_watched_child(pid_t pid) {
  return watched_children().contains(pid);
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (limit_is_raised || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  original_limit = limit;
  limit.rlim_cur = limit.rlim_max;
  limit_is_raised = ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

std::vector<std::string> own_environment() {
  std::vector<std::string> result;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) result.emplace_back(*entry);
  return result;
}

std::vector<std::string> merge_environment(std::vector<std::string> base, const std::vector<std::string>& changes) {
  std::unordered_map<std::string, std::size_t> places;
  std::vector<std::string> merged;
  base.insert(base.end(), changes.begin(), changes.end());
  for (auto& entry : base) {
    const auto [place, is_new] = places.emplace(entry.substr(0, entry.find('=')), merged.size());
    if (is_new)
      merged.push_back(std::move(entry));
    else
      merged[place->second] = std::move(entry);
  }
  return merged;
}

std::optional<std::string> value_of(const std::vector<std::string>& environment, const std::string& name) {
  std::optional<std::string> value;
  for (const std::string& entry : environment) {
    if (entry.starts_with(name + "=")) value = entry.substr(name.size() + 1);
  }
  return value;
}

}  // namespace elastictrain::launcher
