// Purpose: the page of the journal's format, supervisor/JOURNAL.md, made from the field lists of the records. Pure.
#pragma once

#include <string>

namespace elastictrain {

std::string render_journal_reference();

}  // namespace elastictrain
