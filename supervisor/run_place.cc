#include "supervisor/run_place.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "supervisor/protocol/json_text.h"

namespace elastictrain {
namespace {

constexpr const char* kPlaceFile = "/supervisor.json";
constexpr const char* kLockFile = "/lock";
constexpr std::size_t kMaxBytes = 4096;
constexpr mode_t kFileMode = 0600;

std::string own_host() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::optional<RunPlace> place_in(const std::string& path) {
  std::ifstream file(path);
  std::string text(kMaxBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  const nlohmann::json json = parse_json(text);
  if (!json.is_object()) return std::nullopt;
  const auto text_at = [&](const char* name) {
    const auto found = json.find(name);
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  const auto pid = json.find("pid");
  RunPlace place{text_at("host"), 0, text_at("slurm_job"), false};
  if (place.host.empty() || pid == json.end() || !pid->is_number_integer()) return std::nullopt;
  place.pid = pid->get<std::int64_t>();
  return place;
}

enum class LockState { kFree, kHeld, kUnknown };

LockState state_of_lock(const std::string& path) {
  const int lock = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (lock < 0) return errno == ENOENT ? LockState::kFree : LockState::kUnknown;
  const bool taken = ::flock(lock, LOCK_EX | LOCK_NB) == 0;
  const bool held = !taken && errno == EWOULDBLOCK;
  ::close(lock);
  return taken ? LockState::kFree : held ? LockState::kHeld : LockState::kUnknown;
}

}  // namespace

void record_place(const std::string& run_directory) {
  const char* const job = std::getenv("SLURM_JOB_ID");
  const nlohmann::json json = {{"host", own_host()}, {"pid", ::getpid()}, {"slurm_job", job == nullptr ? "" : job}};
  const std::string path = run_directory + kPlaceFile;
  const std::string next = path + ".new";
  const std::string text = json_text(json) + "\n";
  const int file = ::open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, kFileMode);
  if (file < 0) return;
  const bool written = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(file);
  if (written) (void)::rename(next.c_str(), path.c_str());
}

std::optional<RunPlace> supervisor_elsewhere(const std::string& run_directory) {
  auto place = place_in(run_directory + kPlaceFile);
  if (!place || place->host == own_host()) return std::nullopt;
  const LockState lock = state_of_lock(run_directory + kLockFile);
  if (lock == LockState::kFree) return std::nullopt;
  place->certain = lock == LockState::kHeld;
  return place;
}

std::optional<RunPlace> supervisor_held_elsewhere(const std::string& run_directory) {
  auto place = supervisor_elsewhere(run_directory);
  return place && place->certain ? place : std::nullopt;
}

std::string describe_elsewhere(const std::string& run_name, const RunPlace& place) {
  const std::string command = "elastictrain status " + run_name;
  const std::string ask = place.slurm_job.empty()
                              ? "ssh " + place.host + " " + command
                              : "srun --jobid " + place.slurm_job + " --overlap -w " + place.host + " -n 1 " + command;
  const std::string where = place.host + " (process " + std::to_string(place.pid) + ")";
  if (place.certain) return "run " + run_name + " is supervised on " + where + ", and answers there only: " + ask;
  return "run " + run_name + " was last supervised on " + where +
         ", and this file system has no locks that show whether it still is; ask there: " + ask +
         "; if it has lost its supervisor, take it over with: elastictrain run --resume " + run_name;
}

}  // namespace elastictrain
