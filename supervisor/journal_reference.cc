#include "supervisor/journal_reference.h"

#include <algorithm>
#include <array>

#include "supervisor/journal_codec.h"
#include "supervisor/protocol/names.h"

namespace elastictrain {
namespace {

constexpr std::array<std::string_view, 28> kDetails{
    "observed",     "agent_hello",      "agent_ended",   "spawn",       "spawned",       "hello",
    "ready",        "prepare",          "prepared",      "active",      "accepted",      "halted",
    "halt_settled", "all_back",         "dismissed",     "run_state",   "collectives",   "generation",
    "left",         "finished",         "exited",        "host_slots",  "host_released", "kept_warm",
    "warm_ended",   "accounts_awaited", "term_answered", "plan_updated"};

constexpr std::array<std::string_view, 33> kWarnings{"connection_rejected",
                                                     "journal_torn",
                                                     "journal_gap",
                                                     "host_poll_failed",
                                                     "host_vanished",
                                                     "host_cooled",
                                                     "notice",
                                                     "agent_suspect",
                                                     "agent_cut_off",
                                                     "agent_lost",
                                                     "spawn_failed",
                                                     "spawn_lost",
                                                     "dropped",
                                                     "killed",
                                                     "vanished",
                                                     "stacks",
                                                     "refused",
                                                     "program_refused",
                                                     "target_unmet",
                                                     "given_up",
                                                     "disagreement",
                                                     "newcomer_sent_away",
                                                     "grow_refused",
                                                     "first_missing",
                                                     "replace_given_up",
                                                     "lease_ignored",
                                                     "abort",
                                                     "below_min",
                                                     "loss",
                                                     "hang_suspected",
                                                     "hang",
                                                     "stuck",
                                                     "plain_restart"};

constexpr std::array<std::string_view, 4> kErrors{"failed", "audit_violation", "invariant_broken", "state_lost"};

constexpr std::array<std::string_view, 8> kTroubleNotes{protocol::kHeldNote,
                                                        protocol::kCheckpointFailed,
                                                        protocol::kCheckpointFencedOut,
                                                        protocol::kCheckpointSkipped,
                                                        protocol::kNotesDropped,
                                                        "state_transfer",
                                                        "state_replaced",
                                                        "nccl"};

constexpr std::array<std::string_view, 3> kNewsNotes{protocol::kCheckpointResumed, protocol::kCheckpointUnused,
                                                     protocol::kTermNote};

template <class List>
bool has(const List& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

// What a program reports comes with each epoch, and a checkpoint that was written is the usual.
JournalLevel level_of_note(std::string_view key) {
  if (has(kTroubleNotes, key)) return JournalLevel::kWarning;
  return has(kNewsNotes, key) ? JournalLevel::kInfo : JournalLevel::kDetail;
}

}  // namespace

JournalLevel level_of_event(std::string_view event, std::string_view key) {
  if (event == "note") return level_of_note(key);
  if (has(kDetails, event)) return JournalLevel::kDetail;
  if (has(kWarnings, event)) return JournalLevel::kWarning;
  return has(kErrors, event) ? JournalLevel::kError : JournalLevel::kInfo;
}

std::string_view name_of(JournalLevel level) {
  constexpr std::array<std::string_view, 4> kNames{"detail", "info", "warning", "error"};
  return kNames[static_cast<std::size_t>(level)];
}

std::optional<JournalLevel> journal_level_named(std::string_view name) {
  for (const JournalLevel level :
       {JournalLevel::kDetail, JournalLevel::kInfo, JournalLevel::kWarning, JournalLevel::kError}) {
    if (name_of(level) == name) return level;
  }
  return std::nullopt;
}

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
