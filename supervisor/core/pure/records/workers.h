// Purpose: records about single workers: how they start, what they report, how they end.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "supervisor/core/pure/records/record_fields.h"
#include "supervisor/protocol/ids.h"

namespace elastictrain::core::record {

struct Spawn {
  WorkerId worker;
  std::string host;
  std::optional<AgentId> agent;  // early journals name only the host
  std::uint32_t slot = 0;
};
ET_RECORD(Spawn, "spawn", "A worker is to be started in a slot.", ET_FIELD(worker), ET_FIELD(host), ET_FIELD(agent),
          ET_FIELD(slot))

struct FirstSuccessor {
  WorkerId worker;
};
ET_RECORD(FirstSuccessor, "first_successor",
          "The environment of a worker that is to be started says rank 0, because no worker with this rank is left. It "
          "gets the "
          "rank when it has trained with the others.",
          ET_FIELD(worker))

struct FirstMissing {
  std::string reason;
};
ET_RECORD(FirstMissing, "first_missing",
          "The worker that was started as rank 0 is gone, and none is started in its place. A program that keeps RANK "
          "in a variable "
          "saves and prints nothing from here on.",
          ET_FIELD(reason))

struct Spawned {
  WorkerId worker;
  std::int64_t pid = 0;
};
ET_RECORD(Spawned, "spawned", "The agent has started the worker's process.", ET_FIELD(worker), ET_FIELD(pid))

struct SpawnFailed {
  WorkerId worker;
  std::string reason;
};
ET_RECORD(SpawnFailed, "spawn_failed", "The worker's process could not be started.", ET_FIELD(worker), ET_FIELD(reason))

struct SpawnLost {
  WorkerId worker;
};
ET_RECORD(SpawnLost, "spawn_lost", "The order to start the worker was lost with a connection.", ET_FIELD(worker))

struct Hello {
  WorkerId worker;
  std::int64_t pid = 0;
  std::string library;
};
ET_RECORD(Hello, "hello", "The program has joined the run.", ET_FIELD(worker), ET_FIELD(pid), ET_FIELD(library))

struct Ready {
  WorkerId worker;
  std::uint64_t state_bytes = 0;
};
ET_RECORD(Ready, "ready", "The worker can be a member of a generation.", ET_FIELD(worker), ET_FIELD(state_bytes))

struct Note {
  WorkerId worker;
  std::string key;
  std::string value;
};
ET_RECORD(Note, "note", "A number or text that the program reports.", ET_FIELD(worker), ET_FIELD(key), ET_FIELD(value))

struct TermAnswered {
  WorkerId worker;
  std::string text;
};
ET_RECORD(TermAnswered, "term_answered", "What follows from a TERM that another process sent to the worker.",
          ET_FIELD(worker), ET_FIELD(text))

struct Finished {
  WorkerId worker;
  Step last_step = 0;
};
ET_RECORD(Finished, "finished", "The worker's program reached its end.", ET_FIELD(worker), ET_FIELD(last_step))

struct Left {
  WorkerId worker;
  Generation generation = 0;
  Step last_step = 0;
};
ET_RECORD(Left, "left", "The worker left at the boundary of a generation to which it does not belong.",
          ET_FIELD(worker), ET_FIELD(generation), ET_FIELD(last_step))

struct Dismissed {
  WorkerId worker;
  std::string reason;
};
ET_RECORD(Dismissed, "dismissed", "A worker in no generation is told to exit.", ET_FIELD(worker), ET_FIELD(reason))

struct Dropped {
  WorkerId worker;
  std::string reason;
};
ET_RECORD(Dropped, "dropped", "A new worker failed before it was a member.", ET_FIELD(worker), ET_FIELD(reason))

struct Killed {
  WorkerId worker;
  std::string host;
};
ET_RECORD(Killed, "killed", "The worker is killed without a grace.", ET_FIELD(worker), ET_FIELD(host))

struct Stacks {
  WorkerId worker;
  std::string host;
  std::vector<std::string> lines;
};
ET_RECORD(Stacks, "stacks", "Where the process of a worker was that made no progress.", ET_FIELD(worker),
          ET_FIELD(host), ET_FIELD(lines))

struct Exited {
  WorkerId worker;
  std::string host;
  std::int32_t exit_code = 0;
  std::int32_t signal = 0;
  std::vector<std::string> last_error_lines;
  std::optional<bool> out_of_memory;
  std::optional<std::uint64_t> memory_limit_bytes;
  std::optional<std::uint64_t> peak_bytes;
};
ET_RECORD(
    Exited, "exited",
    "The worker's process ended. `out_of_memory`: the kernel's OOM killer ended it, or at that time another process "
    "of its cgroup. `memory_limit_bytes` is the least that holds there, which the host may have had less of; 0: none.",
    ET_FIELD(worker), ET_FIELD(host), ET_FIELD(exit_code), ET_FIELD(signal), ET_FIELD(last_error_lines),
    ET_FIELD(out_of_memory).since(7), ET_FIELD(memory_limit_bytes).since(7), ET_FIELD(peak_bytes).since(7))

struct Vanished {
  WorkerId worker;
  std::string host;
};
ET_RECORD(Vanished, "vanished", "The worker's process is gone, and its agent does not know how it ended.",
          ET_FIELD(worker), ET_FIELD(host))

using WorkerRecords =
    RecordList<Spawn, FirstSuccessor, FirstMissing, Spawned, SpawnFailed, SpawnLost, Hello, Ready, Note, TermAnswered,
               Finished, Left, Dismissed, Dropped, Killed, Stacks, Exited, Vanished>;

}  // namespace elastictrain::core::record
