// Purpose: a run as its journal's file holds it, for a supervisor that takes the run over: every line goes through the
// fold of core/journal_fold.h. Lines that are not records (a torn last one, malformed data) and unknown events are
// skipped.
//
// Thread: any one. JournalReplay is pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "supervisor/core/pure/journal_fold.h"
#include "supervisor/protocol/result.h"

namespace elastictrain {

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
