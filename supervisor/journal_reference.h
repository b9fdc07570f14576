// Purpose: the journal's events for people: the level of each, and the page of the format, supervisor/JOURNAL.md.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The importance of a journal event to a person. Pure.

namespace elastictrain {

// kDetail: a step of another event. kWarning: the run lost something or did not do what was asked, and goes on. kError:
// it cannot go on, or something is wrong that must not be.
enum class JournalLevel : std::uint8_t { kDetail, kInfo, kWarning, kError };

// `key`: of a `note`, whose level follows from what it tells.
JournalLevel level_of_event(std::string_view event, std::string_view key = {});

std::string_view name_of(JournalLevel level);
std::optional<JournalLevel> journal_level_named(std::string_view name);

// The page of the journal's format, supervisor/JOURNAL.md, made from the field lists of the records. Pure.

std::string render_journal_reference();

// The events that a run's journal may have, with the names that older versions wrote.
std::vector<std::string> event_names();

}  // namespace elastictrain
