// Purpose: protection of the data plane's connections between hosts (network.encryption).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace elastictrain::protocol {

enum class Encryption : std::uint8_t {
  kNone,       // both ends are authenticated, what follows is in clear
  kIntegrity,  // in clear, but no change is accepted
  kFull,       // encrypted as well
};

// In the order of the enumerators.
inline constexpr std::array<std::string_view, 3> kEncryptionNames{"none", "integrity", "full"};

constexpr std::string_view name_of(Encryption encryption) {
  return kEncryptionNames[static_cast<std::size_t>(encryption)];
}

constexpr std::optional<Encryption> encryption_named(std::string_view name) {
  for (std::size_t i = 0; i < kEncryptionNames.size(); ++i) {
    if (kEncryptionNames[i] == name) return static_cast<Encryption>(i);
  }
  return std::nullopt;
}

}  // namespace elastictrain::protocol
