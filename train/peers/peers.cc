#include "train/peers/peers.h"

namespace elastictrain::peers {

void Peers::enable_store() {
  is_enabled_ = true;
  begin();
}

void Peers::begin() {
  if (!is_enabled_) return;
  store_.open();
  joins_generations_ = true;
}

void Peers::end() {
  joins_generations_ = false;
  store_.close();
}

}  // namespace elastictrain::peers

namespace elastictrain::session {

std::unique_ptr<Extension> make_extension(const ExtensionHost& host) {
  return std::make_unique<peers::Peers>(host);
}

}  // namespace elastictrain::session
