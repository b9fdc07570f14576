#include "supervisor/journal_history.h"

#include <fstream>

#include "supervisor/protocol/json_text.h"

namespace elastictrain {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr const char* kFirstEvent = "run_opened";

// The records of the core and the edge are flat; anything deeper is not a record of this program.
OrderedJson parse_record(const std::string& line) {
  constexpr int kMaxDepth = 8;  // of a view within a record
  OrderedJson record = parse_ordered_json(line, kMaxDepth);
  const bool good = record.is_object() && record.contains("event") && record["event"].is_string();
  return good ? record : OrderedJson();
}

bool is_bookkeeping(const std::string& name) {
  return name == "event" || name == "seq" || name == "t" || name == "up";
}

Journal::Fields fields_of(const OrderedJson& record) {
  Journal::Fields fields;
  for (const auto& [name, value] : record.items()) {
    if (is_bookkeeping(name)) continue;
    fields.emplace_back(name, json_text(value));
  }
  return fields;
}

// Offset of the line that opened the newest run; 0 if there is none.
std::streamoff newest_run(std::ifstream& stream) {
  const std::string mark = std::string("\"event\":\"") + kFirstEvent + '"';
  std::streamoff found = 0;
  std::streamoff begin = 0;
  for (std::string line; std::getline(stream, line);) {
    if (line.find(mark) != std::string::npos && !parse_record(line).is_null()) found = begin;
    begin = stream.eof() ? begin : static_cast<std::streamoff>(stream.tellg());
  }
  return found;
}

}  // namespace

Result<JournalHistory> read_journal_history(
    const std::string& path, const std::function<void(const std::string& event, const Journal::Fields& fields)>& use) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return Error{ErrorCode::kIo, "the journal " + path + " cannot be read"};
  const std::streamoff begin = newest_run(stream);
  stream.clear();
  stream.seekg(begin);
  JournalHistory history;
  for (std::string line; std::getline(stream, line);) {
    const OrderedJson record = parse_record(line);
    if (record.is_null()) continue;
    ++history.records;
    if (const auto up = record.find("up"); up != record.end() && up->is_number()) history.up_s = up->get<double>();
    use(record["event"].get<std::string>(), fields_of(record));
  }
  if (stream.bad()) return Error{ErrorCode::kIo, "the journal " + path + " cannot be read to its end"};
  return history;
}

}  // namespace elastictrain
