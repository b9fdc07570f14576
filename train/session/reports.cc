#include "train/session/reports.h"

#include <cstdio>

#include "train/session/control_plane.h"

namespace elastictrain::session {

void Reports::tell(std::string_view key, const std::string& text) const {
  if (plane_ != nullptr) return plane_->send(protocol::WorkerNote{std::string(key), text});
  std::fprintf(stderr, "elastictrain: %.*s: %s\n", static_cast<int>(key.size()), key.data(), text.c_str());
}

void Reports::send(const protocol::WorkerToAgent& message) const {
  if (plane_ != nullptr) plane_->send(message);
}

}  // namespace elastictrain::session
