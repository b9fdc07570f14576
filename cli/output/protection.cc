#include "cli/output/protection.h"

namespace elastictrain::cli {
namespace {

using protocol::Encryption;

const char* what_it_does(Encryption encryption) {
  switch (encryption) {
    case Encryption::kNone:
      return "sums and state in clear";
    case Encryption::kIntegrity:
      return "sums and state protected against changes, not encrypted";
    case Encryption::kFull:
      return "sums and state encrypted";
  }
  return "?";
}

std::string setting(const NetworkConfig& network) {
  return "network.encryption = \"" + std::string(protocol::name_of(network.encryption)) + "\"";
}

}  // namespace

std::string describe_protection(const NetworkConfig& network) {
  const std::string left = left_in_clear(network);
  return "between hosts: " + std::string(what_it_does(network.encryption)) + " (" + setting(network) + ")" +
         (left.empty() ? "" : "; " + left);
}

std::string left_in_clear(const NetworkConfig& network) {
  if (network.encryption == Encryption::kNone) return "";
  switch (network.backend) {
    case BackendChoice::kCpu:
      return "";
    case BackendChoice::kMpi:
      return "MPI sends sums in clear, whatever " + setting(network) + " says";
    case BackendChoice::kNccl:
      return "NCCL sends sums in clear, whatever " + setting(network) + " says";
    case BackendChoice::kAuto:
      return "";
  }
  return "";
}

std::string gpus_leave_in_clear(const NetworkConfig& network) {
  if (network.encryption == Encryption::kNone || network.backend != BackendChoice::kAuto) return "";
  return "NCCL sends the sums of GPUs in clear, whatever " + setting(network) + " says";
}

}  // namespace elastictrain::cli
