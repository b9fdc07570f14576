// Purpose: tells a place in an object store from a directory: configuration, supervisor and workers agree on it. Pure.
#pragma once

#include <string_view>

namespace elastictrain::protocol {

// s3://bucket/prefix and the like: "scheme://…".
constexpr bool is_remote_place(std::string_view place) {
  const std::size_t end = place.find("://");
  constexpr std::string_view kOfSchemes = "abcdefghijklmnopqrstuvwxyz0123456789+-";
  return end != std::string_view::npos && end > 0 && place.find_first_not_of(kOfSchemes) == end;
}

}  // namespace elastictrain::protocol
