// Purpose: the recoveries of a run and the checkpoints that it could recover from, from journal records and workers'
// notes. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "supervisor/core/pure/action.h"
#include "supervisor/core/pure/records.h"
#include "supervisor/protocol/ids.h"

// The recoveries and the last change of a run, from its journal's records as they are written (or read back by
// a later supervisor). Pure.

namespace elastictrain {

class RecoveryLog {
 public:
  struct Last {
    Generation generation = 0;
    std::string reason;            // what was lost, as text
    std::optional<double> idle_s;  // not known until some steps have followed
  };

  struct Change {
    Generation generation = 0;
    std::string reason;
    double up_s = 0;  // when it was complete
  };

  void take(const core::Record& record, double up_s);

  std::uint64_t count() const { return count_; }
  // How often all processes of a program that does not use the library were started again.
  std::uint64_t plain_restarts() const { return plain_restarts_; }
  const std::optional<Last>& last() const { return last_; }
  const std::optional<Change>& last_change() const { return last_change_; }

 private:
  template <class R>
  void on(const R&) {}
  void on(const core::record::Commit& commit);
  void on(const core::record::GenerationComplete& generation);
  void on(const core::record::Idle& idle);
  void on(const core::record::PlainRestart& restart) { plain_restarts_ = restart.count; }

  Generation committed_ = 0;
  std::string reason_;
  double up_s_ = 0;  // of the record that is taken
  std::uint64_t count_ = 0;
  std::uint64_t plain_restarts_ = 0;
  std::optional<Last> last_;
  std::optional<Change> last_change_;
};

// The checkpoints of a run, from the notes that its workers write: the newest good one, failures since, and
// what a user has to hear about them. Pure.

class CheckpointLog {
 public:
  struct Message {
    core::Tell::Level level = core::Tell::Level::kInfo;
    std::string text;
  };
  // `now` is nothing for a record that an earlier supervisor wrote: its time is not known. The answer: what to say now;
  // of failures in a row the first, the tenth, the hundredth, …
  std::optional<Message> take(const core::Record& record, std::optional<Instant> now);

  const std::optional<Step>& step() const { return step_; }  // of the newest one that was written or resumed from
  std::optional<double> age_s(Instant now) const;            // of it; nothing: not known
  std::uint64_t failures() const { return failures_; }       // since then
  const std::string& reason() const { return reason_; }      // of the last failure; empty: none since then

 private:
  std::optional<Message> on(const core::record::Note& note, std::optional<Instant> now);
  std::optional<Message> good(const std::string& text, std::optional<Instant> now);
  std::optional<Message> failed(const std::string& what, const std::string& text);

  std::optional<Step> step_;
  std::optional<Instant> at_;
  std::uint64_t failures_ = 0;
  std::uint64_t next_reported_ = 1;
  std::string reason_;
};

}  // namespace elastictrain
