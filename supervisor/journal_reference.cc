#include "supervisor/journal_reference.h"

#include "supervisor/journal_codec.h"
#include "supervisor/journal_levels.h"

namespace elastictrain {
namespace {

constexpr const char* kIntroduction = R"(# The journal

This page is generated: `elastictrain events --reference > supervisor/JOURNAL.md`. A test compares it with the binary.

The journal of a run is `journal.jsonl` in the directory of the run: one JSON object a line, appended only. Every record
begins with

| Field | Type | Meaning |
|---|---|---|
| `seq` | integer | number of the record in the file, from 1 |
| `t` | number | Unix time in seconds |
| `up` | number | seconds since the start of the run, under all its supervisors |
| `event` | text | what happened, one of the names below |

and continues with the fields of its event, in the order given here. A field that is *optional* is left out when it has
no content. `request` is 0 if no client waits for an answer. Durations are in milliseconds unless the name says otherwise.

Each event has a level, given with it here; it is not in the file. `detail`: a step of another event. `info`: what
`elastictrain events` shows without `--all`, with what is above it. `warning`: the run lost something or did not do what was
asked, and goes on. `error`: it cannot go on, or something is wrong that must not be. The level of a `note` follows from
its key: what a program reports is a detail, a checkpoint that failed a warning.

**Versions.** `run_opened` and `run_resumed` name the version of the schema in which the records after them are written; a
journal without it has version 1. elastictrain reads all versions up to its own, ignores unknown events and fields, and
refuses to resume a run whose journal has a newer version. The column *since* names the version that introduced a field,
and the name that it had before.
)";

std::string history_of(std::uint32_t since, const std::string& old_name) {
  if (since <= 1) return "";
  return std::to_string(since) + (old_name.empty() ? "" : ", was `" + old_name + "`");
}

std::string row_of(const RecordFormat::Field& field) {
  return "| `" + field.name + "` | " + field.type + (field.optional ? ", optional" : "") + " | " +
         history_of(field.since, field.old_name) + " |\n";
}

std::string section_of(const RecordFormat& format) {
  std::string text = "\n## " + format.event + "\n\n" + format.meaning +
                     " Level: " + std::string(name_of(level_of_event(format.event))) + ".\n";
  if (!format.old_event.empty()) text += "\nSince version 2; was `" + format.old_event + "`.\n";
  if (format.fields.empty()) return text;
  text += "\n| Field | Type | Since |\n|---|---|---|\n";
  for (const RecordFormat::Field& field : format.fields) text += row_of(field);
  return text;
}

}  // namespace

std::string render_journal_reference() {
  std::string page = kIntroduction;
  page += "\nThis page describes version " + std::to_string(core::record::kSchemaVersion) + ".\n";
  for (const RecordFormat& format : journal_format()) page += section_of(format);
  return page;
}

std::vector<std::string> event_names() {
  std::vector<std::string> names;
  for (const RecordFormat& format : journal_format()) {
    names.push_back(format.event);
    if (!format.old_event.empty()) names.push_back(format.old_event);
  }
  return names;
}

}  // namespace elastictrain
