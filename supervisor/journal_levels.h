// Purpose: the importance of a journal event to a person. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace elastictrain {

// kDetail: a step of another event. kWarning: the run lost something or did not do what was asked, and goes on. kError:
// it cannot go on, or something is wrong that must not be.
enum class JournalLevel : std::uint8_t { kDetail, kInfo, kWarning, kError };

// `key`: of a `note`, whose level follows from what it tells.
JournalLevel level_of_event(std::string_view event, std::string_view key = {});

std::string_view name_of(JournalLevel level);
std::optional<JournalLevel> journal_level_named(std::string_view name);

}  // namespace elastictrain
