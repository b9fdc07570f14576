// Purpose: the program's notes for the journal, as many as a run keeps: those beyond the limit are dropped, counted and
// reported, because a program that writes one in each of its fast steps must not hold up the messages of its host.
//
// Ownership: the worker. Thread: the training thread. Failure: add() throws SessionError for one that is too long.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "supervisor/protocol/allowance.h"
#include "train/session/reports.h"

namespace elastictrain::session {

class Notes {
 public:
  static constexpr std::size_t kMaxKeyBytes = 256;
  static constexpr std::size_t kMaxValueBytes = 64 << 10;
  static constexpr int kAtOnce = 1000;  // of up to 1 KiB; a longer one counts as several
  static constexpr int kPerSecond = 50;

  explicit Notes(const Reports& reports) : reports_(reports) {}

  void add(std::string_view key, std::string_view value, std::chrono::steady_clock::time_point now);
  // What was dropped and not yet reported.
  void close();

 private:
  const Reports& reports_;
  protocol::Allowance allowance_{kAtOnce, kPerSecond};
  protocol::Allowance report_allowance_{1, 0.1};
  std::uint64_t dropped_ = 0;
};

}  // namespace elastictrain::session
