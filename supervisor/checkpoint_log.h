// Purpose: the checkpoints of a run, from the notes that its workers write: the newest good one, failures since, and
// what a user has to hear about them. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "supervisor/core/pure/action.h"
#include "supervisor/core/pure/records.h"
#include "supervisor/protocol/ids.h"

namespace elastictrain {

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
