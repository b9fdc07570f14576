// Purpose: the page of the journal's format, supervisor/JOURNAL.md, made from the field lists of the records. Pure.
#pragma once

#include <string>
#include <vector>

namespace elastictrain {

std::string render_journal_reference();

// The events that a run's journal may have, with the names that older versions wrote.
std::vector<std::string> event_names();

}  // namespace elastictrain
