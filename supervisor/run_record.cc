#include "supervisor/run_record.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "supervisor/protocol/json_text.h"

namespace elastictrain {
namespace {

using Json = nlohmann::json;

constexpr const char* kFileName = "run.json";
constexpr std::size_t kMaxRecordBytes = 16u << 20;

std::string hex_of(const transport::Key& key) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : key) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool read_hex(const std::string& text, transport::Key& key) {
  if (text.size() != 2 * key.size()) return false;
  for (std::size_t i = 0; i < key.size(); ++i) {
    const int high = digit_of(text[2 * i]);
    const int low = digit_of(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    key[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return true;
}

Error cannot(const char* what, const std::string& path) {
  return {ErrorCode::kIo, std::string("cannot ") + what + " " + path + ": " + std::strerror(errno)};
}

bool write_all(int descriptor, const std::string& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = ::write(descriptor, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<std::size_t>(count);
  }
  return ::fsync(descriptor) == 0 || errno == EINVAL || errno == EROFS;
}

// Whatever the name stands for by now: a pipe does not block, and nothing longer than a record is read. Nothing: it is
// no file that can be one.
std::optional<std::string> read_record(int descriptor) {
  struct stat about {};
  if (::fstat(descriptor, &about) != 0 || !S_ISREG(about.st_mode)) return std::nullopt;
  if (about.st_size > static_cast<off_t>(kMaxRecordBytes)) return std::nullopt;
  std::string text(static_cast<std::size_t>(about.st_size), '\0');
  std::size_t read = 0;
  while (read < text.size()) {
    const ssize_t count = ::read(descriptor, text.data() + read, text.size() - read);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return std::nullopt;
    if (count == 0) break;
    read += static_cast<std::size_t>(count);
  }
  text.resize(read);
  return text;
}

// So that the new name is on disk as well. If a directory cannot be synced, a crash may restore the old file.
void sync_directory(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  (void)::fsync(descriptor);
  ::close(descriptor);
}

void add_end(Json& json, const RunRecord::End& end) {
  json["exit_status"] = end.exit_status;
  json["reason"] = end.reason;
  json["ended"] = end.ended_unix_s;
  json["uptime_s"] = end.uptime_s;
  json["workers"] = end.workers;
  json["epoch"] = end.epoch;
  json["step"] = end.step;
  json["loss"] = end.loss;
  json["can_continue"] = end.can_continue;
}

RunRecord::End end_of(const Json& json) {
  return {.exit_status = json.at("exit_status").get<int>(),
          .reason = json.at("reason").get<std::string>(),
          .ended_unix_s = json.value("ended", 0.0),
          .uptime_s = json.value("uptime_s", 0.0),
          .workers = json.value("workers", std::uint64_t{0}),
          .epoch = json.value("epoch", std::uint64_t{0}),
          .step = json.value("step", std::uint64_t{0}),
          .loss = json.value("loss", 0.0),
          .can_continue = json.value("can_continue", false)};
}

std::string text_of(const RunRecord& record) {
  Json json = {{"run", record.run_name},
               {"version", record.version},
               {"port", record.port},
               {"listen", record.listen_addresses},
               {"advertise", record.advertise_addresses},
               {"config", record.config}};
  if (record.end) {
    add_end(json, *record.end);
  } else {
    json["key"] = hex_of(record.key);
  }
  return json_text(json, 1) + "\n";
}

std::optional<RunRecord> record_of(const Json& json) {
  RunRecord record;
  record.run_name = json.at("run").get<std::string>();
  record.version = json.at("version").get<std::string>();
  record.port = json.at("port").get<std::uint16_t>();
  record.listen_addresses = json.at("listen").get<std::vector<std::string>>();
  record.advertise_addresses = json.at("advertise").get<std::vector<std::string>>();
  record.config = json.at("config").get<std::string>();
  if (json.contains("exit_status")) {
    record.end = end_of(json);
  } else if (!read_hex(json.at("key").get<std::string>(), record.key)) {
    return std::nullopt;
  }
  return record;
}

}  // namespace

std::string run_record_path(const std::string& run_directory) {
  return run_directory + "/" + kFileName;
}

Status save_run_record(const std::string& run_directory, const RunRecord& record) {
  const std::string path = run_record_path(run_directory);
  const std::string temporary = path + ".new";
  if (::unlink(temporary.c_str()) != 0 && errno != ENOENT) return cannot("replace", temporary);
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) return cannot("write", temporary);
  Status written;
  if (!write_all(descriptor, text_of(record))) written = cannot("write", temporary);
  ::close(descriptor);
  if (written.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) written = cannot("replace", path);
  if (!written.ok()) {
    (void)::unlink(temporary.c_str());
    return written;
  }
  sync_directory(run_directory);
  return {};
}

Result<RunRecord> load_run_record(const std::string& run_directory) {
  const std::string path = run_record_path(run_directory);
  const Error useless{ErrorCode::kInvalid,
                      path + " cannot be read as the record of a run; remove " + run_directory + " to forget that run"};
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0 && (errno == ELOOP || errno == ENXIO)) return useless;
  if (descriptor < 0) return Error{ErrorCode::kUnavailable, "there is no record of a run in " + run_directory};
  const auto text = read_record(descriptor);
  ::close(descriptor);
  if (!text) return useless;
  try {
    auto record = record_of(parse_json(*text));
    if (record) return std::move(*record);
  } catch (const Json::exception&) {
    return useless;
  }
  return useless;
}

}  // namespace elastictrain
