#include "supervisor/journal_replay.h"

#include <fstream>

#include "supervisor/audit_file.h"
#include "supervisor/journal_codec.h"

namespace elastictrain {

void JournalReplay::take(std::string_view line) {
  if (line.empty()) return;
  const auto decoded = decode_journal_line(line);
  if (!decoded) {
    ++unreadable_;
    return;
  }
  ++records_;
  if (decoded->record) fold_.take(*decoded->record);
}

Result<core::Resumed> replay_journal(const std::string& path) {
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
  auto audits = read_audits(audit_path_of(path));
  if (!audits.ok()) return audits.error();
  core::Resumed resumed = replay.result();
  resumed.audits = std::move(*audits);
  return resumed;
}

}  // namespace elastictrain
