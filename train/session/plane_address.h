// Purpose: how the ranks of a plane find one another: their endpoints as blocks of equal size, and the secret that only
// the planes of one index have. Pure. Failure: nullopt for an endpoint that has no room, or bytes that are none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/plan_messages.h"

namespace elastictrain::session {

std::optional<std::vector<std::byte>> write_endpoint(const protocol::Endpoint& endpoint, std::size_t bytes);
std::optional<protocol::Endpoint> read_endpoint(std::span<const std::byte> block);

// Of the processes with this index in all workers of a generation, so that no two planes can be mixed up.
Token plane_token(const Token& of_generation, std::uint32_t index);

}  // namespace elastictrain::session
