#include "supervisor/journal_levels.h"

#include <algorithm>
#include <array>

#include "supervisor/protocol/note_keys.h"

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

constexpr std::array<std::string_view, 7> kTroubleNotes{protocol::kCheckpointFailed,
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

}  // namespace elastictrain
