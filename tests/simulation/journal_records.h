// Purpose: what the simulation knows of the journal's records: those that it writes itself, the facts that the oracle
// needs, and how a later supervisor reads them. No other file looks into a record.
// Thread: any; it holds no state.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "supervisor/core/pure/action.h"
#include "supervisor/core/pure/event.h"
#include "supervisor/core/pure/settings.h"

namespace elastictrain::simulation {

core::Journal run_opened(const core::RunSettings& settings, std::uint64_t boot);
core::Journal run_resumed(const core::RunSettings& settings, std::uint64_t boot);
core::Journal journal_gap(std::uint64_t lost_records);

// One line of the journal, with its end.
std::string line_of(const core::Journal& record, std::uint64_t sequence, Instant now);
core::Resumed replayed(const std::string& journal, std::uint64_t boot);
// All that can be read, in order.
std::vector<core::Record> records_of(const std::string& journal);

struct RecordFacts {
  std::string event;
  std::vector<Generation> numbers;              // of generations and fences
  std::string broken_invariant;                 // empty: none
  std::map<std::string, std::uint64_t> totals;  // of an audit
};
RecordFacts facts_of(const core::Journal& record);

}  // namespace elastictrain::simulation
