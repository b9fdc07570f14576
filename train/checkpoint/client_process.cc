#include "train/checkpoint/client_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <thread>
#include <utility>

namespace elastictrain::checkpoint {
namespace {

constexpr std::chrono::milliseconds kLookEvery{5};
constexpr std::size_t kMaxWordsBytes = 400;  // of what it says
constexpr int kUnknownStatus = -1;           // somebody else has waited for it
constexpr int kStillRuns = -2;

struct Spawn {
  Spawn() {
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
    // A program may block signals or ignore them, and its children would, too.
    sigset_t none, all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    ::posix_spawnattr_setpgroup(&attributes, 0);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~Spawn() {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

}  // namespace

Result<ClientProcess> ClientProcess::start(const std::string& name, const std::vector<std::string>& words,
                                           Direction direction, std::chrono::milliseconds timeout) {
  ClientProcess process;
  process.name_ = name;
  process.timeout_ = timeout;
  process.deadline_ = Clock::now() + timeout;
  process.messages_ = File(::memfd_create("client", MFD_CLOEXEC));
  int ends[2];
  // A socket: a write to a client that has ended is an error, and no signal.
  if (!process.messages_.valid() || ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return system_error(process.name_, "cannot be run", errno);
  }
  process.stream_ = File(ends[0]);
  const File theirs(ends[1]);
  const File nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const bool sends = direction == Direction::kToClient;
  Spawn spawn;
  ::posix_spawn_file_actions_adddup2(&spawn.actions, sends ? theirs.fd() : nothing.fd(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&spawn.actions, sends ? nothing.fd() : theirs.fd(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&spawn.actions, process.messages_.fd(), STDERR_FILENO);
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const int failed =
      ::posix_spawnp(&process.pid_, argv.front(), &spawn.actions, &spawn.attributes, argv.data(), environ);
  if (failed != 0) {
    process.pid_ = -1;
    return Error{ErrorCode::kIo, "the client " + process.name_ +
                                     " cannot be run: " + std::generic_category().message(failed) +
                                     "; install it on each host, or set checkpoint.client"};
  }
  return process;
}

ClientProcess::ClientProcess(ClientProcess&& other) noexcept
    : name_(std::move(other.name_)),
      pid_(std::exchange(other.pid_, -1)),
      stream_(std::move(other.stream_)),
      messages_(std::move(other.messages_)),
      deadline_(other.deadline_),
      timeout_(other.timeout_) {}

ClientProcess::~ClientProcess() {
  kill();
}

Status ClientProcess::await(short events) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
    pollfd waited{stream_.fd(), events, 0};
    const int ready = left > 0 ? ::poll(&waited, 1, static_cast<int>(std::min<std::int64_t>(left, 60'000))) : 0;
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return system_error(name_, "poll", errno);
    if (left > 0) continue;
    kill();
    return Error{ErrorCode::kTimeout, "the client " + name_ + " was ended: it had not done within " +
                                          std::to_string(timeout_.count()) + " ms (checkpoint.client_timeout_ms)" +
                                          last_words()};
  }
}

Status ClientProcess::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (auto status = await(POLLOUT); !status) return status;
    const auto sent = ::send(stream_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (sent < 0) return ended_early();
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return {};
}

Result<std::size_t> ClientProcess::read(std::span<std::byte> bytes) {
  for (;;) {
    if (auto status = await(POLLIN); !status) return status.error();
    const auto got = ::recv(stream_.fd(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return system_error(name_, "recv", errno);
    return static_cast<std::size_t>(got);
  }
}

Status ClientProcess::finish() {
  ::shutdown(stream_.fd(), SHUT_WR);
  int status = kStillRuns;
  while ((status = reap(false)) == kStillRuns && Clock::now() < deadline_) std::this_thread::sleep_for(kLookEvery);
  if (status == kStillRuns) return await(0);
  if (status == 0) return {};
  if (status == kUnknownStatus) return failure("has ended, and its status went to another part of this process");
  return failure("ended with status " + std::to_string(status));
}

// Its own error says more than that it takes no more bytes.
Error ClientProcess::ended_early() {
  const Status status = finish();
  return status ? failure("ended before it had all of the file") : status.error();
}

Error ClientProcess::failure(const std::string& what) const {
  return {ErrorCode::kIo, "the client " + name_ + " " + what + last_words()};
}

std::string ClientProcess::last_words() const {
  std::string words(kMaxWordsBytes, '\0');
  const off_t end = ::lseek(messages_.fd(), 0, SEEK_END);
  const auto got =
      ::pread(messages_.fd(), words.data(), words.size(), std::max<off_t>(0, end - static_cast<off_t>(words.size())));
  words.resize(static_cast<std::size_t>(std::max<ssize_t>(0, got)));
  while (!words.empty() && words.back() == '\n') words.pop_back();
  std::replace_if(
      words.begin(), words.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return words.empty() ? "" : ": " + words;
}

void ClientProcess::kill() {
  if (pid_ < 0) return;
  ::kill(-pid_, SIGKILL);
  reap(true);
}

// Its exit status, 128 + signal, or one of those above.
int ClientProcess::reap(bool waits) {
  int status = 0;
  pid_t found = 0;
  do {
    found = ::waitpid(pid_, &status, waits ? 0 : WNOHANG);
  } while (found < 0 && errno == EINTR);
  if (found == 0) return kStillRuns;
  pid_ = -1;
  if (found < 0) return kUnknownStatus;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace elastictrain::checkpoint
