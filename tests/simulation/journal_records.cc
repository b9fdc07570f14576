#include "tests/simulation/journal_records.h"

#include <cstdlib>
#include <sstream>

#include "supervisor/journal_replay.h"

namespace elastictrain::simulation {

core::Journal run_opened(const core::RunSettings& settings) {
  return {.event = "run_opened", .fields = {{"start_workers", std::to_string(settings.start_workers)}}};
}

core::Journal run_resumed() {
  return {.event = "run_resumed", .fields = {{"anew", "false"}}};
}

core::Journal journal_gap(std::uint64_t lost_records) {
  return {.event = "journal_gap", .fields = {{"lost", std::to_string(lost_records)}}};
}

std::string line_of(const core::Journal& record, std::uint64_t sequence, Instant now) {
  const std::string seconds = std::to_string(static_cast<double>(now.time_since_epoch().count()) / 1e6);
  std::string line = "{\"seq\":" + std::to_string(sequence) + ",\"t\":" + seconds + ",\"up\":" + seconds +
                     ",\"event\":\"" + record.event + "\"";
  for (const auto& [name, value] : record.fields) line += ",\"" + name + "\":" + value;
  return line + "}\n";
}

core::Resumed replayed(const std::string& journal) {
  JournalReplay replay;
  std::istringstream lines(journal);
  for (std::string line; std::getline(lines, line);) replay.take(line);
  return replay.result();
}

RecordFacts facts_of(const core::Journal& record) {
  RecordFacts facts;
  facts.event = record.event;
  for (const auto& [name, value] : record.fields) {
    const std::uint64_t number = std::strtoull(value.c_str(), nullptr, 10);
    if (name == "generation" || name == "fence") facts.numbers.push_back(number);
    if (record.event == "audit") facts.totals[name] = number;
    if (record.event == "invariant_broken" && name == "what") facts.broken_invariant = value;
  }
  return facts;
}

}  // namespace elastictrain::simulation
