#include "supervisor/run_record.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "supervisor/protocol/json_fields.h"
#include "supervisor/protocol/json_text.h"

namespace elastictrain::json_fields {

// The key as hexadecimal digits.
template <>
struct Codec<transport::Key> {
  static std::string wanted() { return "hexadecimal digits of a key"; }
  template <class Json>
  static Json write(const transport::Key& key) {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    for (const std::uint8_t byte : key) {
      text += kDigits[byte >> 4];
      text += kDigits[byte & 15];
    }
    return text;
  }
  static bool read(const nlohmann::json& found, transport::Key& key) {
    if (!found.is_string()) return false;
    const auto& text = found.get_ref<const std::string&>();
    if (text.size() != 2 * key.size()) return false;
    for (std::size_t i = 0; i < key.size(); ++i) {
      const char* const end = text.data() + 2 * i + 2;
      if (std::from_chars(end - 2, end, key[i], 16).ptr != end) return false;
    }
    return true;
  }
};

}  // namespace elastictrain::json_fields

namespace elastictrain {

// What an older version did not say of an end is left out.
template <class Io, json_fields::Of<RunRecord::End> T>
void each_field(Io& io, T& end) {
  using json_fields::kOptional;
  io("exit_status", end.exit_status);
  io("reason", end.reason);
  io("ended", end.ended_unix_s, kOptional);
  io("uptime_s", end.uptime_s, kOptional);
  io("workers", end.workers, kOptional);
  io("epoch", end.epoch, kOptional);
  io("step", end.step, kOptional);
  io("loss", end.loss, kOptional);
  io("can_continue", end.can_continue, kOptional);
}

// The key is not kept beyond the end.
template <class Io, json_fields::Of<RunRecord> T>
void each_field(Io& io, T& record) {
  io("run", record.run_name);
  io("version", record.version);
  io("port", record.port);
  io("listen", record.listen_addresses);
  io("advertise", record.advertise_addresses);
  io("config", record.config);
  if constexpr (Io::kReads) {
    if (io.has("exit_status")) record.end.emplace();
  }
  if (record.end) return each_field(io, *record.end);
  io("key", record.key);
}

namespace {

constexpr const char* kFileName = "run.json";
constexpr std::size_t kMaxRecordBytes = 16u << 20;

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

}  // namespace

std::string run_record_path(const std::string& run_directory) {
  return run_directory + "/" + kFileName;
}

namespace {

// In the space that the file has already. A crash meanwhile may leave neither the old record nor the new one.
bool write_in_place(const std::string& path, const std::string& text) {
  constexpr off_t kBlockBytes = 512;  // of st_blocks
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) return false;
  struct stat about {};
  const bool fits = ::fstat(descriptor, &about) == 0 && S_ISREG(about.st_mode) &&
                    static_cast<off_t>(text.size()) <= about.st_blocks * kBlockBytes;
  const bool written =
      fits && write_all(descriptor, text) && ::ftruncate(descriptor, static_cast<off_t>(text.size())) == 0;
  ::close(descriptor);
  return written;
}

Status replace_run_record(const std::string& run_directory, const std::string& text) {
  const std::string path = run_record_path(run_directory);
  const std::string temporary = path + ".new";
  if (::unlink(temporary.c_str()) != 0 && errno != ENOENT) return cannot("replace", temporary);
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) return cannot("write", temporary);
  Status written;
  if (!write_all(descriptor, text)) written = cannot("write", temporary);
  ::close(descriptor);
  if (written.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) written = cannot("replace", path);
  if (!written.ok()) {
    (void)::unlink(temporary.c_str());
    return written;
  }
  sync_directory(run_directory);
  return {};
}

}  // namespace

Status save_run_record(const std::string& run_directory, const RunRecord& record) {
  const std::string text = json_text(json_fields::json_of(record), 1) + "\n";
  const Status replaced = replace_run_record(run_directory, text);
  const bool kept = !replaced.ok() && record.end && write_in_place(run_record_path(run_directory), text);
  return kept ? Status() : replaced;
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
  const nlohmann::json object = parse_json(text.value_or(""));
  if (!object.is_object()) return useless;
  RunRecord record;
  std::string problem;
  json_fields::Reader(object, "", problem).fields(record);
  if (!problem.empty()) return useless;
  return record;
}

}  // namespace elastictrain
