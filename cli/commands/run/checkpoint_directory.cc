#include "cli/commands/run/checkpoint_directory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <asio/error_code.hpp>
#include <asio/ip/host_name.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "supervisor/journal_history.h"
#include "supervisor/protocol/display_text.h"
#include "supervisor/protocol/json_text.h"
#include "supervisor/recovery_log.h"

namespace elastictrain::cli {
namespace {

namespace fs = std::filesystem;

fs::path nearest_existing(fs::path path) {
  std::error_code ignored;
  while (path.has_relative_path() && !fs::exists(path, ignored)) path = path.parent_path();
  return path;
}

// 0, or errno.
int try_to_write(const fs::path& directory) {
  const std::string name = (directory / (".elastictrain-tries-" + std::to_string(::getpid()))).string();
  const int file = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return errno;
  const bool written = ::write(file, "\n", 1) == 1;
  const int failed = written ? 0 : errno;
  ::close(file);
  ::unlink(name.c_str());
  return failed;
}

}  // namespace

Status try_log_directory(const std::string& directory) {
  std::error_code ignored;
  if (directory.empty() || fs::is_directory(directory, ignored)) return {};
  const fs::path place = nearest_existing(fs::absolute(directory, ignored));
  const int failed = fs::is_directory(place, ignored) ? try_to_write(place) : ENOTDIR;
  if (failed == 0) return {};
  return Error{ErrorCode::kIo, "log.directory " + directory + " cannot be created: " + std::strerror(failed)};
}

Status try_checkpoint_directory(const std::string& directory) {
  std::error_code ignored;
  const fs::path place = nearest_existing(fs::absolute(directory, ignored));
  const int failed = fs::is_directory(place, ignored) ? try_to_write(place) : ENOTDIR;
  if (failed == 0) return {};
  return Error{ErrorCode::kIo, "checkpoints cannot be written to checkpoint.directory " + directory + ": " +
                                   place.string() + ": " + std::strerror(failed) +
                                   "; choose another directory, or make this one writable"};
}

Status require_checkpoints(const std::string& directory, std::optional<Step> saved, const std::string& run) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("step-") && name.ends_with(".json")) return {};
  }
  const std::string what =
      saved ? "its newest one, of step " + std::to_string(*saved) + ", was written there" : "it has written none";
  return Error{ErrorCode::kNoInput, "run " + run + " cannot continue: there is no checkpoint in checkpoint.directory " +
                                        directory + ", and " + what +
                                        ". Mount the directory or restore its files; to begin at the first step: "
                                        "elastictrain run --resume " +
                                        run + " --fresh"};
}

std::optional<Step> saved_step(const std::string& journal_path) {
  CheckpointLog log;
  const auto read =
      read_journal_history(journal_path, [&log](const core::Record& record) { log.take(record, std::nullopt); });
  return read.ok() ? log.step() : std::nullopt;
}

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kName = "claim.json";
constexpr std::chrono::seconds kBeat{10};  // between two looks of the owner at the file
constexpr double kDeadAfterS = 60;         // of a clock on another machine

struct Claim {
  std::string run;
  std::string run_directory;
  std::string host;
  double beat_unix_s = 0;
  bool ended = false;     // its supervisor has ended, ...
  bool finished = false;  // ... and nobody continues from its checkpoints
};

double now_unix_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string path_in(const std::string& directory) {
  return directory + "/" + kName;
}

// Nothing: there is none, or what is there is no claim.
std::optional<Claim> read_claim(const std::string& directory) {
  std::ifstream file(path_in(directory));
  std::stringstream text;
  text << file.rdbuf();
  try {
    const Json json = parse_json(text.str());
    return Claim{.run = json.at("run").get<std::string>(),
                 .run_directory = json.at("run_directory").get<std::string>(),
                 .host = json.at("host").get<std::string>(),
                 .beat_unix_s = json.at("beat_unix_s").get<double>(),
                 .ended = json.at("ended").get<bool>(),
                 .finished = json.at("finished").get<bool>()};
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

bool is_of(const Claim& claim, const ClaimRequest& request) {
  return claim.run == request.run && claim.run_directory == request.run_directory;
}

bool is_alive(const Claim& claim) {
  return !claim.ended && now_unix_s() - claim.beat_unix_s < kDeadAfterS;
}

std::string state_of(const Claim& claim) {
  if (is_alive(claim)) return "which trains on " + claim.host;
  const auto age = std::chrono::milliseconds(static_cast<std::int64_t>((now_unix_s() - claim.beat_unix_s) * 1000));
  const std::string since = protocol::duration_text(std::max(age, std::chrono::milliseconds(0))) + " ago";
  if (claim.finished) return "which ended on " + claim.host + " " + since;
  return (claim.ended ? "which left on " + claim.host + " " : "which was last seen on " + claim.host + " ") + since +
         " and may continue";
}

Error foreign(const Claim& claim, const ClaimRequest& request) {
  std::string text = "checkpoint.directory " + request.directory + " belongs to run " + claim.run + ", " +
                     state_of(claim) + ": both would remove and continue from each other's checkpoints. ";
  text += "Give each run its own: checkpoint.directory = \"" + request.directory + "/{run}\"";
  if (!is_alive(claim)) text += "; or continue from that run's newest checkpoint: checkpoint.adopt = true";
  return Error{ErrorCode::kRefused, text};
}

Status judge(const std::optional<Claim>& claim, const ClaimRequest& request) {
  if (!claim || is_of(*claim, request)) return {};
  if (is_alive(*claim)) return foreign(*claim, request);
  if (request.adopts || (claim->finished && !request.continues)) return {};
  return foreign(*claim, request);
}

}  // namespace

Status may_claim(const ClaimRequest& request) {
  return judge(read_claim(request.directory), request);
}

CheckpointClaim::CheckpointClaim(asio::io_context& io, ClaimRequest request,
                                 std::function<void(const std::string&)> lost)
    : timer_(io), request_(std::move(request)), lost_(std::move(lost)) {}

Status CheckpointClaim::take() {
  std::error_code failed;
  fs::create_directories(request_.directory, failed);
  if (failed) return {};
  const auto before = read_claim(request_.directory);
  if (Status allowed = judge(before, request_); !allowed.ok()) return allowed;
  if (before) fs::remove(path_in(request_.directory), failed);
  write(Stage::kRuns);
  held_ = true;
  return may_claim(request_);
}

// A link fails where another run was faster. Some file systems have none; there the last one to write wins.
void CheckpointClaim::write(Stage stage) const {
  const std::string path = path_in(request_.directory);
  const std::string mine = path + "." + asio::ip::host_name() + "." + std::to_string(::getpid());
  const Json json = {{"run", request_.run},
                     {"run_directory", request_.run_directory},
                     {"host", asio::ip::host_name()},
                     {"beat_unix_s", now_unix_s()},
                     {"ended", stage != Stage::kRuns},
                     {"finished", stage == Stage::kFinished}};
  std::ofstream(mine) << json_text(json) << "\n";
  std::error_code failed;
  if (!held_) fs::create_hard_link(mine, path, failed);
  if (held_ || (failed && failed != std::errc::file_exists)) fs::rename(mine, path, failed);
  fs::remove(mine, failed);
}

void CheckpointClaim::keep() {
  timer_.expires_after(kBeat);
  timer_.async_wait([this](asio::error_code error) {
    if (!error) beat();
  });
}

void CheckpointClaim::beat() {
  const auto claim = read_claim(request_.directory);
  if (claim && !is_of(*claim, request_)) {
    held_ = false;
    return lost_("checkpoint.directory " + request_.directory + " was taken by run " + claim->run + " on " +
                 claim->host + ": stop one of the two");
  }
  write(Stage::kRuns);
  keep();
}

void CheckpointClaim::end(bool finished) {
  timer_.cancel();
  if (!held_) return;
  write(finished ? Stage::kFinished : Stage::kEnded);
  held_ = false;
}

}  // namespace elastictrain::cli
