// Purpose: the records of a run's journal so far, for a supervisor that takes the run over: those of the newest run in
// the file, from its last "run_opened" on. Lines that are not records (a torn one) and unknown events are skipped.
//
// Also for commands that show what a run did.
//
// Thread: any one. Errors: a value that names the file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "supervisor/core/pure/records.h"
#include "supervisor/journal_codec.h"
#include "supervisor/protocol/result.h"

namespace elastictrain {

struct JournalHistory {
  double up_s = 0;  // of the last record: how long the run had been supervised
  std::uint64_t records = 0;
};

// Calls `use` for each record, oldest first, with its times; also for events that this version does not know. `wants`
// spares the decoding of lines for which it returns false.
Result<JournalHistory> read_journal_lines(const std::string& path, const std::function<void(const JournalLine&)>& use,
                                          const std::function<bool(std::string_view line)>& wants = nullptr);

// The same for what is known, without times.
Result<JournalHistory> read_journal_history(const std::string& path,
                                            const std::function<void(const core::Record& record)>& use);

}  // namespace elastictrain
