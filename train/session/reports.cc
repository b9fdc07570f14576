#include "train/session/reports.h"

#include <cstdio>

#include "train/session/control_plane.h"

namespace elastictrain::session {

void Reports::tell(const std::string& key, const std::string& text) const {
  if (plane_ != nullptr) return plane_->send(protocol::WorkerNote{key, text});
  std::fprintf(stderr, "elastictrain: %s: %s\n", key.c_str(), text.c_str());
}

void Reports::send(const protocol::WorkerToAgent& message) const {
  if (plane_ != nullptr) plane_->send(message);
}

}  // namespace elastictrain::session
