#include "supervisor/journal_history.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string_view>
#include <variant>

#include "supervisor/audit_file.h"
#include "supervisor/journal_codec.h"

namespace elastictrain {
namespace {

// A record begins with its number, its times and its event: the rest of a long line need not be searched.
constexpr std::size_t kHeadBytes = 160;

bool opens_run(const std::string& line) {
  static const std::string mark = "\"event\":\"" + std::string(event_of(core::record::RunOpened{})) + '"';
  if (std::string_view(line).substr(0, kHeadBytes).find(mark) == std::string_view::npos) return false;
  const auto decoded = decode_journal_line(line);
  return decoded && decoded->record && decoded->record->is<core::record::RunOpened>();
}

// Offset of the line that opened the newest run; 0 if there is none.
std::streamoff newest_run(std::ifstream& stream) {
  std::streamoff found = 0;
  std::streamoff begin = 0;
  for (std::string line; std::getline(stream, line);) {
    if (opens_run(line)) found = begin;
    begin += static_cast<std::streamoff>(line.size()) + 1;
  }
  return found;
}

}  // namespace

Result<JournalHistory> read_journal_history(const std::string& path,
                                            const std::function<void(const core::Record& record)>& use) {
  return read_journal_lines(path, [&use](const JournalLine& line) {
    if (line.record) use(*line.record);
  });
}

Result<JournalHistory> read_journal_lines(const std::string& path, const std::function<void(const JournalLine&)>& use,
                                          const std::function<bool(std::string_view line)>& wants) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return Error{ErrorCode::kIo, "the journal " + path + " cannot be read"};
  const std::streamoff begin = newest_run(stream);
  stream.clear();
  stream.seekg(begin);
  JournalHistory history;
  for (std::string line; std::getline(stream, line);) {
    if (wants && !wants(line)) continue;
    const auto decoded = decode_journal_line(line);
    if (!decoded) continue;
    ++history.records;
    history.up_s = decoded->up_s.value_or(history.up_s);
    use(*decoded);
  }
  if (stream.bad()) return Error{ErrorCode::kIo, "the journal " + path + " cannot be read to its end"};
  return history;
}

namespace {

bool begins_hold(const core::Record& record) {
  return record.is<core::record::SizeHeld>() || record.is<core::record::RunState>();
}

double unix_now_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

void JournalReplay::take(std::string_view line) {
  if (line.empty()) return;
  const auto decoded = decode_journal_line(line);
  if (!decoded) {
    ++unreadable_;
    return;
  }
  ++records_;
  if (!decoded->record) return;
  fold_.take(*decoded->record);
  if (begins_hold(*decoded->record)) held_since_unix_s_ = decoded->unix_s;
}

core::Resumed JournalReplay::result(double now_unix_s) const {
  core::Resumed resumed = fold_.result();
  if (!resumed.hold || resumed.hold->duration.count() == 0) return resumed;
  const auto passed_ms = static_cast<Millis::rep>(std::max(0.0, now_unix_s - held_since_unix_s_) * 1e3);
  const Millis left = resumed.hold->duration - Millis(passed_ms);
  resumed.hold->duration = std::max(left, Millis(1));  // one that has ended is released at once, with a record
  return resumed;
}

Result<core::Resumed> replay_journal(const std::string& path, const std::string& boot) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return Error{ErrorCode::kIo, "the journal " + path + " cannot be read"};
  JournalReplay replay;
  for (std::string line; std::getline(stream, line);) replay.take(line);
  if (stream.bad()) return Error{ErrorCode::kIo, "the journal " + path + " cannot be read to its end"};
  if (replay.schema() > core::record::kSchemaVersion) {
    return Error{ErrorCode::kUnavailable, "the journal " + path + " has schema version " +
                                              std::to_string(replay.schema()) + ", and this elastictrain reads up to " +
                                              std::to_string(core::record::kSchemaVersion) +
                                              "; resume the run with the version that wrote it"};
  }
  replay.continue_in(boot);
  auto audits = read_audits(audit_path_of(path));
  if (!audits.ok()) return audits.error();
  core::Resumed resumed = replay.result(unix_now_s());
  resumed.audits = std::move(*audits);
  return resumed;
}

}  // namespace elastictrain
