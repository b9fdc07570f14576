#include "cli/commands/checkpoint_claim.h"

#include <unistd.h>

#include <algorithm>
#include <asio/error_code.hpp>
#include <asio/ip/host_name.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "supervisor/protocol/duration_text.h"
#include "supervisor/protocol/json_text.h"

namespace elastictrain::cli {
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
