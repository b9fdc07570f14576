// Purpose: the records of a run's journal so far, for a supervisor that takes the run over: those of the newest run in
// the file, from its last "run_opened" on. Lines that are not records (a torn one) and unknown events are skipped.
//
// Thread: any one. Errors: a value that names the file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "supervisor/core/records.h"
#include "supervisor/protocol/result.h"

namespace elastictrain {

struct JournalHistory {
  double up_s = 0;  // of the last record: how long the run had been supervised
  std::uint64_t records = 0;
};

// Calls `use` for each record, oldest first.
Result<JournalHistory> read_journal_history(const std::string& path,
                                            const std::function<void(const core::Record& record)>& use);

}  // namespace elastictrain
