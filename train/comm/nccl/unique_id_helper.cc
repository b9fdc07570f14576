#include "train/comm/nccl/unique_id_helper.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

extern char** environ;

namespace elastictrain::comm {
namespace {

// NCCL itself may print to the same stream.
constexpr char kIdMark[] = "elastictrain-nccl-id ";
constexpr char kErrorMark[] = "elastictrain-nccl-error ";
constexpr int kExitUnavailable = 69;

bool starts_with(const std::string& text, const char* mark) {
  return text.rfind(mark, 0) == 0;
}

std::string to_hex(const NcclUniqueId& id) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char c : id.internal) {
    const auto byte = static_cast<unsigned char>(c);
    text += {kDigits[byte / 16], kDigits[byte % 16]};
  }
  return text;
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool from_hex(const std::string& text, NcclUniqueId& id) {
  if (text.size() != 2 * kNcclIdBytes) return false;
  for (std::size_t i = 0; i < kNcclIdBytes; ++i) {
    const int high = digit(text[2 * i]);
    const int low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    id.internal[i] = static_cast<char>(high * 16 + low);
  }
  return true;
}

// Our ids, made with the library that this process uses: ids of another version are not compatible.
std::vector<std::string> helper_environment() {
  constexpr char kVariable[] = "ELASTICTRAIN_NCCL_LIBRARY=";
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!starts_with(*entry, kVariable)) environment.emplace_back(*entry);
  }
  if (const auto nccl = NcclLibrary::get()) environment.push_back(kVariable + (*nccl)->path);
  return environment;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (auto& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

struct Pipe {
  Socket read_end;
  Socket write_end;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return io_error("pipe", errno);
  return Pipe{Socket(ends[0]), Socket(ends[1])};
}

}  // namespace

UniqueIdHelper::UniqueIdHelper(UniqueIdHelper&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      input_(std::move(other.input_)),
      output_(std::move(other.output_)),
      ids_(std::move(other.ids_)) {}

UniqueIdHelper& UniqueIdHelper::operator=(UniqueIdHelper&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(input_, other.input_);
  std::swap(output_, other.output_);
  std::swap(ids_, other.ids_);
  return *this;
}

UniqueIdHelper::~UniqueIdHelper() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Result<UniqueIdHelper> UniqueIdHelper::start(std::vector<std::string> command, std::size_t count,
                                             const CancelToken& cancel, Deadline deadline) {
  if (command.empty()) {
    return Error{ErrorCode::kInvalid,
                 "the program that makes NCCL's unique ids is unknown. Set ELASTICTRAIN_BINARY to the path "
                 "of elastictrain"};
  }
  command.push_back(std::to_string(count));
  UniqueIdHelper helper;
  if (auto spawned = helper.spawn(command); !spawned) return spawned.error();
  if (auto read = helper.read_ids(count, cancel, deadline); !read) return read.error();
  return helper;
}

Status UniqueIdHelper::spawn(const std::vector<std::string>& command) {
  auto to_helper = make_pipe();
  auto from_helper = make_pipe();
  if (!to_helper) return to_helper.error();
  if (!from_helper) return from_helper.error();
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, to_helper->read_end.fd(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, from_helper->write_end.fd(), STDOUT_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t defaults;
  ::sigemptyset(&none);
  ::sigfillset(&defaults);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  auto arguments = command;
  auto environment = helper_environment();
  const int failed = ::posix_spawnp(&pid_, arguments[0].c_str(), &actions, &attributes, pointers(arguments).data(),
                                    pointers(environment).data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    pid_ = -1;
    return Error{ErrorCode::kUnavailable,
                 "could not start " + command[0] + " for a unique id of NCCL: " + std::strerror(failed)};
  }
  input_ = std::move(to_helper->write_end);
  output_ = std::move(from_helper->read_end);
  return {};
}

Status UniqueIdHelper::read_ids(std::size_t count, const CancelToken& cancel, Deadline deadline) {
  std::string text;
  while (ids_.size() < count) {
    if (auto ready = wait_ready(output_.fd(), POLLIN, cancel, deadline); !ready) {
      return Error{ready.error().code, "no unique id of NCCL yet: " + ready.error().message};
    }
    char buffer[4096];
    const ssize_t got = ::read(output_.fd(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return Error{ErrorCode::kUnavailable, "the helper that makes unique ids of NCCL exited early"};
    text.append(buffer, static_cast<std::size_t>(got));
    for (auto end = text.find('\n'); end != std::string::npos; end = text.find('\n')) {
      if (auto taken = take_line(text.substr(0, end)); !taken) return taken;
      text.erase(0, end + 1);
    }
  }
  return {};
}

Status UniqueIdHelper::take_line(const std::string& line) {
  if (starts_with(line, kErrorMark)) return Error{ErrorCode::kUnavailable, line.substr(std::strlen(kErrorMark))};
  NcclUniqueId id{};
  if (starts_with(line, kIdMark) && from_hex(line.substr(std::strlen(kIdMark)), id)) ids_.push_back(id);
  return {};
}

std::vector<std::string> unique_id_command() {
  const char* binary = std::getenv("ELASTICTRAIN_BINARY");
  if (binary == nullptr || *binary == '\0') return {};
  return {binary, "nccl-id"};
}

int run_unique_id_helper(std::size_t count) {
  const auto nccl = NcclLibrary::get();
  std::string problem = nccl ? "" : nccl.error().message;
  for (std::size_t i = 0; i < count && problem.empty(); ++i) {
    NcclUniqueId id{};
    const NcclCode code = (*nccl)->get_unique_id(&id);
    if (code != kNcclSuccess) problem = (*nccl)->error(code, "make a unique id").message;
    if (problem.empty()) std::printf("%s%s\n", kIdMark, to_hex(id).c_str());
  }
  std::replace(problem.begin(), problem.end(), '\n', ' ');
  if (!problem.empty()) std::printf("%s%s\n", kErrorMark, problem.c_str());
  std::fflush(stdout);
  char byte = 0;
  while (problem.empty() && ::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return problem.empty() ? 0 : kExitUnavailable;
}

}  // namespace elastictrain::comm
