// Purpose: the trace of a simulated run, one line per event: time, process, event. Lines are made only if they are
// needed: a seed runs without a trace first and is repeated with one when it failed. Thread: one.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "supervisor/protocol/ids.h"

namespace elastictrain::simulation {

class Trace {
 public:
  // `kept`: number of lines kept from the end; 0: no trace.
  explicit Trace(std::size_t kept) : kept_(kept) {}

  bool on() const { return kept_ != 0; }
  template <class Text>
  void add(Instant now, const std::string& who, const Text& text) {
    if (!on()) return;
    lines_.push_back(stamp(now) + " " + who + ": " + text());
    if (lines_.size() > kept_) lines_.pop_front();
  }
  const std::deque<std::string>& lines() const { return lines_; }

 private:
  static std::string stamp(Instant now) {
    const auto us = now.time_since_epoch().count();
    std::string text = std::to_string(us / 1'000'000) + ".";
    const std::string rest = std::to_string(us % 1'000'000);
    return std::string(text.size() < 8 ? 8 - text.size() : 0, ' ') + text + std::string(6 - rest.size(), '0') + rest;
  }

  std::size_t kept_;
  std::deque<std::string> lines_;
};

}  // namespace elastictrain::simulation
