#include "launcher/agent/private_directory.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "launcher/process/process_identity.h"
#include "supervisor/protocol/fnv1a.h"

namespace elastictrain::launcher {
namespace {

constexpr const char* kPrefix = "elastictrain-agent-";
constexpr const char* kLockName = "lock";
// sockaddr_un holds 107 characters; "/w4294967295.sock" must fit after the directory.
constexpr std::size_t kMaxPathBytes = 88;

bool is_our_directory(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid();
}

// The lock ends with the process that holds it, for any reason.
bool is_abandoned(const std::string& path) {
  const int lock = ::open((path + "/" + kLockName).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (lock < 0) return false;
  const bool locked = ::flock(lock, LOCK_EX | LOCK_NB) == 0;
  ::close(lock);
  return locked;
}

void remove_abandoned(const std::string& base) {
  std::error_code failed;
  for (const auto& path : agent_directories(base)) {
    if (is_abandoned(path)) std::filesystem::remove_all(path, failed);
  }
}

// The lock is taken under another name first, so that no process sees a lock file that is not locked yet.
int make_lock(const std::string& directory) {
  const std::string name = directory + "/" + kLockName;
  const std::string hidden = name + ".new";
  const int lock = ::open(hidden.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (lock < 0) return -1;
  if (::flock(lock, LOCK_EX | LOCK_NB) == 0 && ::rename(hidden.c_str(), name.c_str()) == 0) return lock;
  ::close(lock);
  return -1;
}

Result<std::string> make_directory(const std::string& base) {
  std::string path = base + "/" + kPrefix + "XXXXXX";
  if (path.size() > kMaxPathBytes) return Error{ErrorCode::kInvalid, base + ": the path is too long for a socket"};
  if (::mkdtemp(path.data()) != nullptr) return path;
  return Error{ErrorCode::kIo, "cannot make a directory in " + base + ": " + std::strerror(errno)};
}

}  // namespace

std::vector<std::string> agent_directories(const std::string& base) {
  std::vector<std::string> paths;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(base, failed)) {
    const bool named = entry.path().filename().string().starts_with(kPrefix);
    if (named && is_our_directory(entry.path())) paths.push_back(entry.path());
  }
  return paths;
}

Result<PrivateDirectory> PrivateDirectory::create(const std::string& base) {
  auto path = make_directory(base);
  if (!path && base != "/tmp") return create("/tmp");
  if (!path) return path.error();
  remove_abandoned(base);
  const int lock = make_lock(*path);
  if (lock >= 0) return PrivateDirectory(std::move(*path), lock);
  const std::string reason = std::strerror(errno);
  std::error_code ignored;
  std::filesystem::remove_all(*path, ignored);
  return Error{ErrorCode::kIo, "cannot make a lock in " + *path + ": " + reason};
}

PrivateDirectory::PrivateDirectory(PrivateDirectory&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::exchange(other.lock_, -1)) {}

PrivateDirectory::~PrivateDirectory() {
  if (lock_ < 0) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  ::close(lock_);
}

std::string default_directory_base() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  return runtime != nullptr && runtime[0] == '/' ? runtime : "/tmp";
}

namespace {

constexpr const char* kFileName = "agent";

struct Identity {
  std::string run;
  std::string host;
  std::uint32_t agent = 0;
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;
};

// A hash: the file must not hold the key, and any process that can read it could also read the agent's memory.
std::string run_mark(const protocol::AgentBootstrap& bootstrap) {
  return std::to_string(protocol::fnv1a(bootstrap.key));
}

std::optional<Identity> read_identity(const std::filesystem::path& directory) {
  std::ifstream file(directory / kFileName);
  Identity identity;
  file >> identity.run >> identity.agent >> identity.pid >> identity.start_ticks >> std::ws;
  if (!file || !std::getline(file, identity.host)) return std::nullopt;
  return identity;
}

}  // namespace

void write_identity(const std::string& directory, const protocol::AgentBootstrap& bootstrap) {
  const auto stat = read_process_stat(::getpid());
  if (!stat) return;
  std::ofstream file(directory + "/" + kFileName);
  file << run_mark(bootstrap) << ' ' << bootstrap.agent.value << ' ' << ::getpid() << ' ' << stat->start_ticks << '\n'
       << bootstrap.host << '\n';
}

int end_older_agents(const std::string& own_directory, const protocol::AgentBootstrap& bootstrap) {
  const std::string run = run_mark(bootstrap);
  int ended = 0;
  for (const auto& directory : agent_directories(std::filesystem::path(own_directory).parent_path())) {
    if (directory == own_directory) continue;
    const auto identity = read_identity(directory);
    if (!identity || identity->run != run || identity->host != bootstrap.host) continue;
    const bool is_older = lead_of({identity->agent}) < lead_of(bootstrap.agent);
    if (is_older && signal_started(identity->pid, identity->start_ticks, SIGKILL)) ++ended;
  }
  return ended;
}

}  // namespace elastictrain::launcher
