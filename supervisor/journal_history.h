// Purpose: the records of a run's journal file, in order or folded into the state of the run, for a supervisor that
// takes the run over and for commands that explain a run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "supervisor/core/pure/journal_fold.h"
#include "supervisor/core/pure/records.h"
#include "supervisor/journal_codec.h"
#include "supervisor/protocol/result.h"

// The records of a run's journal so far, for a supervisor that takes the run over: those of the newest run in
// the file, from its last "run_opened" on. Lines that are not records (a torn one) and unknown events are skipped.
//
// Also for commands that show what a run did.
//
// Thread: any one. Errors: a value that names the file.

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

// A run as its journal's file holds it, for a supervisor that takes the run over: every line goes through the
// fold of core/journal_fold.h. Lines that are not records (a torn last one, malformed data) and unknown events are
// skipped.
//
// Thread: any one. JournalReplay is pure.

class JournalReplay {
 public:
  void take(std::string_view line);
  void continue_in(const std::string& boot) { fold_.continue_in(boot); }
  // `now_unix_s`, if it is not 0: by then, a part of the time for which a user holds the size has passed.
  core::Resumed result(double now_unix_s = 0) const;

  bool ended() const { return fold_.ended(); }
  std::uint32_t schema() const { return fold_.schema(); }
  std::uint64_t records() const { return records_; }
  std::uint64_t unreadable() const { return unreadable_; }

 private:
  core::JournalFold fold_;
  double held_since_unix_s_ = 0;
  std::uint64_t records_ = 0;
  std::uint64_t unreadable_ = 0;
};

// The whole file, and the audits next to it (audit_file.h), for a supervisor in this boot of the machine ("": cannot be
// told). kUnavailable: a newer version of elastictrain wrote it.
Result<core::Resumed> replay_journal(const std::string& path, const std::string& boot = "");

}  // namespace elastictrain
