#include "train/peers/peers.h"

namespace elastictrain::peers {

void Peers::enable_store() {
  is_enabled_ = true;
  begin();
}

void Peers::begin() {
  if (!is_enabled_) return;
  store_.open();
}

// What every member of the generation knows decides, so that all of them take part.
Status Peers::after_first_sum() {
  const bool reads_models = seat_.synchronization == protocol::Synchronization::kPairAveraging;
  return is_enabled_ || reads_models ? store_.join_generation() : Status();
}

void Peers::end() {
  store_.close();
}

}  // namespace elastictrain::peers

namespace elastictrain::session {

std::unique_ptr<Extension> make_extension(const ExtensionHost& host) {
  return std::make_unique<peers::Peers>(host);
}

}  // namespace elastictrain::session
