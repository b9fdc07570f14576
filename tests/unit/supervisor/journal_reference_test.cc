#include "supervisor/journal_reference.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include "supervisor/journal_codec.h"

using namespace elastictrain;

TEST_CASE("the committed page of the journal's format is the one that the records give") {
  std::ifstream file(ELASTICTRAIN_SOURCE_DIR "/supervisor/JOURNAL.md");
  const std::string committed((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  INFO("write it again with: build/release/cli/elastictrain events --reference > supervisor/JOURNAL.md");
  const bool is_current = committed == render_journal_reference();
  CHECK(is_current);
}

TEST_CASE("the page names old names and versions") {
  const std::string page = render_journal_reference();
  CHECK(page.find("| `target_parents` | list: integer, optional | 2, was `wished_fathers` |") != std::string::npos);
  CHECK(page.find("## plan_updated") != std::string::npos);
  CHECK(page.find("was `reshared`") != std::string::npos);
}

TEST_CASE("the names of events are those of this version and of older ones") {
  const auto names = event_names();
  for (const char* name : {"commit", "plan_updated", "reshared"}) {
    CAPTURE(name);
    CHECK(std::find(names.begin(), names.end(), name) != names.end());
  }
}

TEST_CASE("every event that has a level of its own is an event") {
  int not_usual = 0;
  for (const RecordFormat& format : journal_format()) {
    if (level_of_event(format.event) != JournalLevel::kInfo) ++not_usual;
  }
  CHECK(not_usual == 28 + 33 + 4 + 1);  // the lists of journal_reference.cc, and a note
}
