#include "cli/commands/run/checkpoint_directory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <asio/error_code.hpp>
#include <asio/ip/host_name.hpp>
#include <asio/post.hpp>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "supervisor/journal_history.h"
#include "supervisor/protocol/display_text.h"
#include "supervisor/protocol/json_fields.h"
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

CheckpointPlace checkpoint_place_of(const CheckpointConfig& config) {
  return {config.directory, {config.client, std::chrono::milliseconds(config.client_timeout_ms)}};
}

namespace {

Status try_to_put(checkpoint::Target& target) {
  const std::string name = "elastictrain-tries-" + std::to_string(::getpid());
  auto file = target.create(name, name, 1);
  if (!file) return file.error();
  const std::byte byte{'\n'};
  Status written = (*file)->write({&byte, 1});
  if (written) written = (*file)->publish();
  if (written) target.remove(name);
  return written;
}

}  // namespace

Status try_checkpoint_directory(const CheckpointPlace& place) {
  const std::string what = "checkpoints cannot be written to checkpoint.directory " + place.directory + ": ";
  if (place.is_remote()) {
    const Status put = try_to_put(*checkpoint::open_target(place.directory, place.client));
    return put ? put : Status(Error{ErrorCode::kIo, what + put.error().message});
  }
  std::error_code ignored;
  const fs::path existing = nearest_existing(fs::absolute(place.directory, ignored));
  const int failed = fs::is_directory(existing, ignored) ? try_to_write(existing) : ENOTDIR;
  if (failed == 0) return {};
  return Error{ErrorCode::kIo, what + existing.string() + ": " + std::strerror(failed) +
                                   "; choose another directory, or make this one writable"};
}

Status require_checkpoints(const CheckpointPlace& place, std::optional<Step> saved, const std::string& run) {
  const auto files = checkpoint::open_target(place.directory, place.client)->list();
  if (!files && place.is_remote()) return files.error();
  for (const auto& file : files ? *files : std::vector<checkpoint::Target::Entry>()) {
    if (file.name.starts_with("step-") && file.name.ends_with(".json")) return {};
  }
  const std::string what =
      saved ? "its newest one, of step " + std::to_string(*saved) + ", was written there" : "it has written none";
  return Error{ErrorCode::kNoInput, "run " + run + " cannot continue: there is no checkpoint in checkpoint.directory " +
                                        place.directory + ", and " + what +
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
constexpr const char* kName = "claim.json";

// Of the owner's looks at the file. A call of a client costs more than a look at a directory.
struct Beat {
  std::chrono::seconds every{10};
  std::chrono::seconds dead_after{60};  // of a clock on another machine
};
constexpr Beat kBeatOfStore{std::chrono::seconds(60), std::chrono::seconds(300)};
constexpr std::chrono::seconds kClaimTimeout{60};  // of a call of a client

struct Claim {
  std::string run;
  std::string run_directory;
  std::string host;
  double beat_unix_s = 0;
  bool ended = false;     // its supervisor has ended, ...
  bool finished = false;  // ... and nobody continues from its checkpoints
};

template <class Io, json_fields::Of<Claim> T>
void each_field(Io& io, T& claim) {
  io("run", claim.run);
  io("run_directory", claim.run_directory);
  io("host", claim.host);
  io("beat_unix_s", claim.beat_unix_s);
  io("ended", claim.ended);
  io("finished", claim.finished);
}

double now_unix_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Nothing: it is no claim.
std::optional<Claim> claim_in(std::string_view text) {
  const nlohmann::json object = parse_json(text);
  if (!object.is_object()) return std::nullopt;
  Claim claim;
  std::string problem;
  json_fields::Reader(object, "", problem).fields(claim);
  return problem.empty() ? std::optional(std::move(claim)) : std::nullopt;
}

std::string text_of(const Claim& claim) {
  return json_text(json_fields::json_of(claim)) + "\n";
}

}  // namespace

class ClaimFile {
 public:
  virtual ~ClaimFile() = default;
  virtual Beat beat() const = 0;
  // Nothing: there is none, or what is there is no claim.
  virtual Result<std::optional<Claim>> read() = 0;
  // `anew`: only if there is none, where that is possible.
  virtual Status write(const Claim& claim, bool anew) = 0;
  virtual void remove() = 0;
};

namespace {

class ClaimInDirectory : public ClaimFile {
 public:
  explicit ClaimInDirectory(const std::string& directory) : path_(directory + "/" + kName) {}

  Beat beat() const override { return {}; }
  Result<std::optional<Claim>> read() override {
    std::ifstream file(path_);
    std::stringstream text;
    text << file.rdbuf();
    return claim_in(text.str());
  }
  // A link fails where another run was faster. Some file systems have none; there the last one to write wins.
  Status write(const Claim& claim, bool anew) override {
    const std::string mine = path_ + "." + asio::ip::host_name() + "." + std::to_string(::getpid());
    std::ofstream(mine) << text_of(claim);
    std::error_code failed;
    if (anew) fs::create_hard_link(mine, path_, failed);
    if (!anew || (failed && failed != std::errc::file_exists)) fs::rename(mine, path_, failed);
    fs::remove(mine, failed);
    return {};
  }
  void remove() override {
    std::error_code failed;
    fs::remove(path_, failed);
  }

 private:
  std::string path_;
};

class ClaimInStore : public ClaimFile {
 public:
  explicit ClaimInStore(const CheckpointPlace& place)
      : target_(checkpoint::open_target(place.directory, short_calls(place.client))) {}

  Beat beat() const override { return kBeatOfStore; }
  Result<std::optional<Claim>> read() override {
    const auto files = target_->list();
    if (!files) return files.error();
    const auto is_it = [](const auto& file) { return file.name == kName; };
    if (std::none_of(files->begin(), files->end(), is_it)) return std::optional<Claim>();
    const auto bytes = checkpoint::read_whole(*target_, kName, kMaxBytes);
    if (!bytes) return bytes.error();
    return claim_in({reinterpret_cast<const char*>(bytes->data()), bytes->size()});
  }
  Status write(const Claim& claim, bool) override {
    const std::string text = text_of(claim);
    auto file = target_->create(kName, kName, text.size());
    if (!file) return file.error();
    if (Status written = (*file)->write(std::as_bytes(std::span(text))); !written) return written;
    return (*file)->publish();
  }
  void remove() override { target_->remove(kName); }

 private:
  static constexpr std::size_t kMaxBytes = 1 << 16;
  static checkpoint::Client short_calls(checkpoint::Client client) {
    client.timeout = std::min<std::chrono::milliseconds>(client.timeout, kClaimTimeout);
    return client;
  }

  std::unique_ptr<checkpoint::Target> target_;
};

std::unique_ptr<ClaimFile> claim_file(const CheckpointPlace& place) {
  if (place.is_remote()) return std::make_unique<ClaimInStore>(place);
  return std::make_unique<ClaimInDirectory>(place.directory);
}

bool is_of(const Claim& claim, const ClaimRequest& request) {
  return claim.run == request.run && claim.run_directory == request.run_directory;
}

bool is_alive(const Claim& claim, const ClaimRequest& request) {
  const Beat beat = request.place.is_remote() ? kBeatOfStore : Beat();
  return !claim.ended && now_unix_s() - claim.beat_unix_s < static_cast<double>(beat.dead_after.count());
}

std::string state_of(const Claim& claim, bool alive) {
  if (alive) return "which trains on " + claim.host;
  const auto age = std::chrono::milliseconds(static_cast<std::int64_t>((now_unix_s() - claim.beat_unix_s) * 1000));
  const std::string since = protocol::duration_text(std::max(age, std::chrono::milliseconds(0))) + " ago";
  if (claim.finished) return "which ended on " + claim.host + " " + since;
  return (claim.ended ? "which left on " + claim.host + " " : "which was last seen on " + claim.host + " ") + since +
         " and may continue";
}

Error foreign(const Claim& claim, const ClaimRequest& request) {
  const std::string& directory = request.place.directory;
  const bool alive = is_alive(claim, request);
  std::string text = "checkpoint.directory " + directory + " belongs to run " + claim.run + ", " +
                     state_of(claim, alive) + ": both would remove and continue from each other's checkpoints. ";
  text += "Give each run its own: checkpoint.directory = \"" + directory + "/{run}\"";
  if (!alive) text += "; or continue from that run's newest checkpoint: checkpoint.adopt = true";
  return Error{ErrorCode::kRefused, text};
}

Status judge(const std::optional<Claim>& claim, const ClaimRequest& request) {
  if (!claim || is_of(*claim, request)) return {};
  if (is_alive(*claim, request)) return foreign(*claim, request);
  if (request.adopts || (claim->finished && !request.continues)) return {};
  return foreign(*claim, request);
}

}  // namespace

Status may_claim(const ClaimRequest& request) {
  const auto claim = claim_file(request.place)->read();
  return claim ? judge(*claim, request) : claim.error();
}

CheckpointClaim::CheckpointClaim(asio::io_context& io, ClaimRequest request,
                                 std::function<void(const std::string&)> lost)
    : io_(io), timer_(io), request_(std::move(request)), file_(claim_file(request_.place)), lost_(std::move(lost)) {}

CheckpointClaim::~CheckpointClaim() = default;

Status CheckpointClaim::take() {
  std::error_code failed;
  if (!request_.place.is_remote()) fs::create_directories(request_.place.directory, failed);
  if (failed) return {};
  const auto before = file_->read();
  if (!before) return before.error();
  if (Status allowed = judge(*before, request_); !allowed.ok()) return allowed;
  if (*before) file_->remove();
  write(Stage::kRuns);
  held_ = true;
  return may_claim(request_);
}

void CheckpointClaim::write(Stage stage) {
  const Claim claim{.run = request_.run,
                    .run_directory = request_.run_directory,
                    .host = asio::ip::host_name(),
                    .beat_unix_s = now_unix_s(),
                    .ended = stage != Stage::kRuns,
                    .finished = stage == Stage::kFinished};
  (void)file_->write(claim, !held_);  // a place that cannot be written is the checkpoints' own problem
}

void CheckpointClaim::keep() {
  if (request_.place.is_remote()) {
    thread_ = std::jthread([this](const std::stop_token& stops) { beat_in_thread(stops); });
    return;
  }
  timer_.expires_after(file_->beat().every);
  timer_.async_wait([this](asio::error_code error) {
    if (!error) beat();
  });
}

std::string CheckpointClaim::beat_once() {
  const auto claim = file_->read();
  if (claim && *claim && !is_of(**claim, request_)) {
    return "checkpoint.directory " + request_.place.directory + " was taken by run " + (*claim)->run + " on " +
           (*claim)->host + ": stop one of the two";
  }
  write(Stage::kRuns);
  return "";
}

void CheckpointClaim::beat() {
  const std::string why = beat_once();
  if (why.empty()) return keep();
  held_ = false;
  lost_(why);
}

void CheckpointClaim::beat_in_thread(const std::stop_token& stops) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  for (std::unique_lock lock(mutex); !stopped.wait_for(lock, stops, file_->beat().every, [] { return false; });) {
    if (stops.stop_requested()) return;
    const std::string why = beat_once();
    if (why.empty()) continue;
    return asio::post(io_, [this, why] {
      held_ = false;
      lost_(why);
    });
  }
}

void CheckpointClaim::end(bool finished) {
  timer_.cancel();
  thread_ = std::jthread();  // waits for a call of the client
  if (!held_) return;
  write(finished ? Stage::kFinished : Stage::kEnded);
  held_ = false;
}

}  // namespace elastictrain::cli
