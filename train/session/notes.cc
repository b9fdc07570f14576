#include "train/session/notes.h"

#include <string>
#include <utility>

#include "elastictrain/session.hpp"
#include "supervisor/protocol/note_keys.h"
#include "supervisor/protocol/worker_messages.h"

namespace elastictrain::session {
namespace {

constexpr double kBytesOfOne = 1024;

void require_length(const char* what, std::size_t bytes, std::size_t limit) {
  if (bytes <= limit) return;
  throw SessionError("note(): a " + std::string(what) + " of " + std::to_string(bytes) +
                     " bytes is too long; at most " + std::to_string(limit));
}

}  // namespace

void Notes::add(std::string_view key, std::string_view value, std::chrono::steady_clock::time_point now) {
  require_length("key", key.size(), kMaxKeyBytes);
  require_length("value", value.size(), kMaxValueBytes);
  const double units = 1 + static_cast<double>(value.size()) / kBytesOfOne;
  if (allowance_.take(now, units)) {
    reports_.send(protocol::WorkerNote{std::string(key), std::string(value)});
  } else {
    ++dropped_;
  }
  if (dropped_ > 0 && report_allowance_.take(now)) close();
}

void Notes::close() {
  if (dropped_ == 0) return;
  const std::string text = std::to_string(std::exchange(dropped_, 0)) + " notes were dropped: a worker may write " +
                           std::to_string(kAtOnce) + " at once and " + std::to_string(kPerSecond) + " a second";
  reports_.send(protocol::WorkerNote{std::string(protocol::kNotesDropped), text});
}

}  // namespace elastictrain::session
