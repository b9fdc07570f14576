#include "tests/simulation/journal_records.h"

#include <cstdlib>
#include <sstream>
#include <utility>
#include <variant>

#include "supervisor/journal_codec.h"
#include "supervisor/journal_history.h"

namespace elastictrain::simulation {

core::Journal run_opened(const core::RunSettings& settings, std::uint64_t boot) {
  core::record::RunOpened opened;
  opened.schema = core::record::kSchemaVersion;
  opened.start_workers = settings.start_workers;
  opened.max_workers = settings.max_workers;
  opened.boot = std::to_string(boot);
  if (settings.leased) opened.leased = true;
  return core::Journal(opened, true);
}

core::Journal run_resumed(const core::RunSettings& settings, std::uint64_t boot) {
  core::record::RunResumed resumed;
  resumed.schema = core::record::kSchemaVersion;
  resumed.anew = false;
  resumed.boot = std::to_string(boot);
  if (settings.leased) resumed.leased = true;
  return core::Journal(resumed, true);
}

core::Journal journal_gap(std::uint64_t lost_records) {
  core::record::JournalGap gap;
  gap.lost = lost_records;
  return core::Journal(gap, true);
}

std::string line_of(const core::Journal& record, std::uint64_t sequence, Instant now) {
  const double seconds = static_cast<double>(now.time_since_epoch().count()) / 1e6;
  return encode_journal_line(record.record, sequence, seconds, seconds) + "\n";
}

core::Resumed replayed(const std::string& journal, std::uint64_t boot) {
  JournalReplay replay;
  std::istringstream lines(journal);
  for (std::string line; std::getline(lines, line);) replay.take(line);
  replay.continue_in(std::to_string(boot));
  return replay.result();
}

std::vector<core::Record> records_of(const std::string& journal) {
  std::vector<core::Record> records;
  std::istringstream lines(journal);
  for (std::string line; std::getline(lines, line);) {
    if (auto read = decode_journal_line(line); read && read->record) records.push_back(std::move(*read->record));
  }
  return records;
}

RecordFacts facts_of(const core::Journal& record) {
  RecordFacts facts;
  facts.event = event_of(record.record);
  const bool is_audit = record.record.is<core::record::Audit>();
  for (const auto& [name, value] : fields_of(record.record)) {
    const std::uint64_t number = std::strtoull(value.c_str(), nullptr, 10);
    if (name == "generation" || name == "fence") facts.numbers.push_back(number);
    if (is_audit) facts.totals[name] = number;
  }
  const auto* broken = record.record.as<core::record::InvariantBroken>();
  if (broken != nullptr) facts.broken_invariant = broken->what;
  return facts;
}

}  // namespace elastictrain::simulation
