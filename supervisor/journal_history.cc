#include "supervisor/journal_history.h"

#include <fstream>
#include <string_view>
#include <variant>

#include "supervisor/journal_codec.h"

namespace elastictrain {
namespace {

// A record begins with its number, its times and its event: the rest of a long line need not be searched.
constexpr std::size_t kHeadBytes = 160;

bool opens_run(const std::string& line) {
  static const std::string mark = "\"event\":\"" + std::string(event_of(core::record::RunOpened{})) + '"';
  if (std::string_view(line).substr(0, kHeadBytes).find(mark) == std::string_view::npos) return false;
  const auto decoded = decode_journal_line(line);
  return decoded && decoded->record && std::holds_alternative<core::record::RunOpened>(*decoded->record);
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

}  // namespace elastictrain
