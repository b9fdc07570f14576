// Purpose: records of the journal (core/records.h) as JSON and back. Nothing else reads or writes that JSON.
//
// Reading is defensive: a field that is missing, damaged or of another type keeps its default, a number that no run
// reaches counts as damaged, and unknown fields are ignored. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "supervisor/core/pure/records.h"

namespace elastictrain {

// Larger numbers are damage: no run reaches them, and the numbers after them must still fit their type.
inline constexpr std::uint64_t kMaxJournalNumber = std::uint64_t{1} << 53;
inline constexpr std::uint32_t kMaxSmallJournalNumber = std::uint32_t{1} << 31;

std::string_view event_of(const core::Record& record);

// Names and JSON values, in the order of the field list.
std::vector<std::pair<std::string, std::string>> fields_of(const core::Record& record);

struct JournalLine {
  double unix_s = 0;                   // 0: the line does not say
  std::optional<double> up_s;          // since the start of the run; none: the line does not say
  std::optional<core::Record> record;  // none: an event that this version does not know
};

// Without a line end.
std::string encode_journal_line(const core::Record& record, std::uint64_t sequence, double unix_s, double up_s);
// Nothing: it is no record at all.
std::optional<JournalLine> decode_journal_line(std::string_view line);

// One per kind of record, in order, for the page of the format.
struct RecordFormat {
  struct Field {
    std::string name;
    std::string type;
    bool optional = false;
    std::uint32_t since = 1;
    std::string old_name;
  };
  std::string event;
  std::string old_event;
  std::string meaning;
  std::vector<Field> fields;
};
std::vector<RecordFormat> journal_format();

}  // namespace elastictrain
