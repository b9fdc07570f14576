#include "supervisor/relay_frame.h"

#include "supervisor/protocol/codec.h"
#include "supervisor/protocol/wire.h"

namespace elastictrain {
namespace {

using protocol::wire::Packer;

const std::uint32_t kToWorkersIndex = static_cast<std::uint32_t>(protocol::AgentDown(protocol::ToWorkers{}).index());

}  // namespace

RelayFrame::RelayFrame(const protocol::WorkerDown& message) {
  msgpack::sbuffer bytes;
  Packer packer(bytes);
  protocol::wire::write(packer, message);
  message_.assign(bytes.data(), bytes.size());
}

std::string RelayFrame::to(const std::vector<WorkerId>& workers) const {
  msgpack::sbuffer head;
  const char length[protocol::kFrameHeaderBytes] = {};
  head.write(length, sizeof length);
  Packer packer(head);
  packer.pack_array(2);
  packer.pack(kToWorkersIndex);
  packer.pack_array(2);
  protocol::wire::write(packer, workers);
  std::string frame;
  frame.reserve(head.size() + message_.size());
  frame.assign(head.data(), head.size());
  frame += message_;
  protocol::wire::put_length(frame.data(), frame.size() - protocol::kFrameHeaderBytes);
  return frame;
}

}  // namespace elastictrain
