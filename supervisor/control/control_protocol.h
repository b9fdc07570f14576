// Purpose: the protocol of `status`, `resize`, `replace`, `drain`, `undrain`, `topology` and `stop` with a running
// supervisor: one JSON object per line over the Unix socket `control.sock` in the run's directory (mode 0700, owner
// only). One request, one answer; `events` is not a request: it reads the journal file next to the socket and follows
// it as it grows.
//
//   {"command":"status"}                      -> {"ok":true,"status":{…}}   (schema below)
//   {"command":"resize","workers":4}          -> {"ok":true,"text":"growing from 2 to 4"}
//                                                with a policy it is held: "for_ms", or until "workers" is 0
//   {"command":"replace","rank":1}            -> …  or {"command":"replace","host":"node3"}
//   {"command":"drain","host":"node3"}
//   {"command":"undrain","host":"node3"}      -> after a drain: workers may be started there again
//   {"command":"topology","topology":"star"}  -> …  or a tree as every rank's parent: "1,1,1"
//   {"command":"stop","now":false}
//   any failure                               -> {"ok":false,"text":"what is wrong, and what to do"}
//
// status: {"name","phase","generation","world_size","target_size",
//          "unmet" (what cannot be reached now, and why),"start_failure" (of a new worker, while slots stay unused for
//          it),"held","held_left_ms"|null,
//          "batch_per_worker","global_batch","learning_rate_factor","size_reason",
//          "waits" (for slots of its cluster: why; "": it does not),"lease" (its version; 0:
//          none),"last_change","last_change_age_s"|null,"uptime_s","epoch","epochs" (0: not known),"epoch_fraction",
//          "time_left_s"|null,
//          "expected_samples"|null,"expected_error_samples"|null,"expected_left_s"|null (of a program that does not say
//          its length: until its loss converges),"no_expected_length" (why
//          not),"step","loss","samples_per_s","idle_s","last_idle_s",
//          "per_replica" (processes of each worker, if they are
//          several),"protection","journal","policy","policy_reason","worker_seconds","cost","scaling_efficiency"|null,
//          "efficiency_of_size","recoveries","last_recovery","last_recovery_idle_s"|null,
//          "failures":[{"class","total","within_window","limit"|null}],
//          "cooled_hosts":[{"host","failures","left_ms","reason"}],
//          "workers":[{"id","rank"|null,"host","slot","phase","program_phase","program_phase_ms","generation","step",
//                      "step_ms","compute_ms","data_wait_ms","communicate_ms","share","quiet_ms","pid",
//                      "device":{"total_bytes","free_bytes" (by all that use the GPU),"copies_bytes" (of gradients,
//                      from which a step is repeated),"sums_bytes"}|null (no GPU, or not known yet)}],
//          "hosts":[{"host","agent","slots","workers","phase","quiet_ms","problem" (why it is lost)}]}
//
// The run directory is <state>/<run name>/ where <state> is $ELASTICTRAIN_STATE_DIR, else $XDG_STATE_HOME/elastictrain,
// else ~/.local/state/elastictrain. It holds control.sock (while the run lasts), journal.jsonl and log/.
#pragma once

#include <cstddef>

namespace elastictrain::control {

inline constexpr std::size_t kMaxRequestBytes = 64 * 1024;
inline constexpr const char* kSocketName = "control.sock";
inline constexpr const char* kJournalName = "journal.jsonl";

}  // namespace elastictrain::control
