#include "supervisor/run_directory.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "supervisor/control/control_client.h"
#include "supervisor/control/control_protocol.h"
#include "supervisor/protocol/json_text.h"

namespace elastictrain {
namespace {

constexpr const char* kPlaceFile = "/supervisor.json";
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
  const auto claim = transport::OwnedDirectory::look(run_directory);
  if (claim == transport::DirectoryClaim::kNone) return std::nullopt;
  place->certain = claim == transport::DirectoryClaim::kHeld;
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

namespace {

constexpr std::size_t kMaxNameLength = 64;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string home_directory() {
  if (std::string home = environment("HOME"); !home.empty()) return home;
  const passwd* entry = ::getpwuid(::geteuid());
  return entry == nullptr || entry->pw_dir == nullptr ? "" : entry->pw_dir;
}

constexpr const char* kAdvice = "set ELASTICTRAIN_STATE_DIR to a directory that you own";

transport::DirectoryRequest request_for(const std::string& path) {
  return {path, 0700, control::kSocketName, std::string("choose another name, or ") + kAdvice};
}

// One that is not there yet is made when the first run begins.
Result<std::string> readable(const std::string& directory) {
  if (::access(directory.c_str(), R_OK | X_OK) == 0 || (errno != EACCES && errno != EPERM)) return directory;
  struct stat found {};
  const bool seen = ::stat(directory.c_str(), &found) == 0;
  return Error{ErrorCode::kDenied,
               "the state directory " + directory +
                   (seen ? " belongs to " + transport::name_of_user(found.st_uid) + ", and " : ": ") +
                   transport::name_of_user(::geteuid()) + " may not read it; " + kAdvice};
}

Error lives(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  if (const auto place = supervisor_held_elsewhere(path); place && !control::is_live(path)) {
    return Error{ErrorCode::kRefused, describe_elsewhere(name, *place) + "; or choose another name"};
  }
  return Error{ErrorCode::kRefused, "a run named '" + name + "' is already running in " + path +
                                        "; stop it with `elastictrain stop " + name + "` or choose another name"};
}

}  // namespace

Result<std::string> state_directory() {
  if (std::string chosen = environment("ELASTICTRAIN_STATE_DIR"); !chosen.empty()) {
    if (chosen[0] == '/') return readable(chosen);
    return Error{ErrorCode::kInvalid, "ELASTICTRAIN_STATE_DIR is '" + chosen + "'; it must be an absolute path"};
  }
  if (std::string state = environment("XDG_STATE_HOME"); !state.empty() && state[0] == '/') {
    return readable(state + "/elastictrain");
  }
  const std::string home = home_directory();
  if (home.empty())
    return Error{ErrorCode::kUnavailable, "the home directory is not known; set ELASTICTRAIN_STATE_DIR"};
  return readable(home + "/.local/state/elastictrain");
}

Status check_run_name(const std::string& name) {
  bool good = !name.empty() && name.size() <= kMaxNameLength && std::isalnum(static_cast<unsigned char>(name[0])) != 0;
  for (char c : name) {
    good = good && (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-');
  }
  if (good) return {};
  return Error{ErrorCode::kInvalid, "'" + name + "' cannot name a run: use up to " + std::to_string(kMaxNameLength) +
                                        " letters, digits, '.', '_' and '-', beginning with a letter or digit"};
}

Result<std::string> run_directory_of(const std::string& run_name) {
  if (Status name = check_run_name(run_name); !name.ok()) return name.error();
  auto state = state_directory();
  if (!state.ok()) return state.error();
  return *state + "/" + run_name;
}

Result<RunDirectory> RunDirectory::claim(const std::string& path) {
  auto held = transport::OwnedDirectory::claim(request_for(path));
  if (!held.ok()) return held.error().code == ErrorCode::kUnavailable ? lives(path) : held.error();
  record_place(path);
  return RunDirectory(std::move(*held));
}

bool RunDirectory::is_held(const std::string& path) {
  return transport::OwnedDirectory::look(path) == transport::DirectoryClaim::kHeld;
}

Status RunDirectory::may_claim(const std::string& path) {
  std::string existing = path;
  while (existing.size() > 1 && ::access(existing.c_str(), F_OK) != 0 && errno == ENOENT) {
    existing.resize(std::max<std::size_t>(existing.rfind('/'), 1));
  }
  if (existing != path) {
    const bool is_directory = std::filesystem::is_directory(existing);
    if (!is_directory) errno = ENOTDIR;
    if (is_directory && ::access(existing.c_str(), W_OK | X_OK) == 0) return {};
    return Error{errno == EACCES || errno == EPERM ? ErrorCode::kDenied : ErrorCode::kIo,
                 "cannot make " + path + ": " + std::strerror(errno) + "; " + kAdvice};
  }
  if (Status ours = transport::OwnedDirectory::require_own(request_for(path)); !ours.ok()) return ours;
  if (is_held(path) || control::is_live(path)) return lives(path);
  return {};
}

std::string RunDirectory::socket_path() const {
  return path() + "/" + control::kSocketName;
}
std::string RunDirectory::journal_path() const {
  return path() + "/" + control::kJournalName;
}

}  // namespace elastictrain
