// Purpose: the record by which a later supervisor takes a run over (key, port, configuration), and the kinds of
// start.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/protocol/result.h"
#include "supervisor/transport/frame_connection.h"

// The kinds of start of a supervisor. Plain data.

namespace elastictrain {

// kFresh: a new run. kTakeOver: one whose supervisor is gone and which may still train. kStartAgain: one that ended
// before its training was complete; it continues from its newest checkpoint, with its generation numbers.
enum class RunStart : std::uint8_t { kFresh, kTakeOver, kStartAgain };

// A run's record, by which a later supervisor can take it over: the key that its agents know, the port to
// which they reconnect, and its configuration. One file in the run's directory, readable by its owner only.
//
// The file holds the key as long as the run lasts; the key is removed at its end. The environment of workers is part of
// the configuration, so the file may hold secrets of the user.
//
// Thread: any one. Errors: values that name the file and what to do.

struct RunRecord {
  struct End {
    int exit_status = 0;
    std::string reason;
    double ended_unix_s = 0;    // 0: an older version did not say; so for what follows
    double uptime_s = 0;        // of all its supervisors together
    std::uint64_t workers = 0;  // of its last generation
    std::uint64_t epoch = 0;
    std::uint64_t step = 0;
    double loss = 0;            // of that step; 0: not known
    bool can_continue = false;  // the program had not reached its end, and there is a checkpoint
  };

  std::string run_name;
  std::string version;  // of the elastictrain that wrote it: agents accept no other
  transport::Key key{};
  std::uint16_t port = 0;
  std::vector<std::string> listen_addresses;
  std::vector<std::string> advertise_addresses;
  std::string config;      // opaque here; returned to the caller unchanged
  std::optional<End> end;  // none: the run has not ended, or its supervisor could not record it
};

std::string run_record_path(const std::string& run_directory);

// Replaces the file atomically: after a crash there is the old one or the new one. The end of a run is written into the
// old file where there is no space for a new one: commands would take the run for one that lost its supervisor, and its
// key would stay.
Status save_run_record(const std::string& run_directory, const RunRecord& record);

// kUnavailable: there is none. kInvalid: it cannot be used.
Result<RunRecord> load_run_record(const std::string& run_directory);

}  // namespace elastictrain
