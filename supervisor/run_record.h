// Purpose: what a run writes down so that a later supervisor can take it over: the key that its agents know, the port
// they come back to, and its configuration. One file in the run's directory, readable by its owner only.
//
// The key is in it as long as the run lives and is removed at its end. The environment that workers are given is part
// of the configuration, so the file may hold what the user keeps secret there.
//
// Thread: any one. Failure: values that name the file and what to do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/protocol/result.h"
#include "supervisor/transport/frame_connection.h"

namespace elastictrain {

struct RunRecord {
  struct End {
    int exit_status = 0;
    std::string reason;
  };

  std::string run_name;
  std::string version;  // of the elastictrain that wrote it: agents talk to no other
  transport::Key key{};
  std::uint16_t port = 0;
  std::vector<std::string> listen_addresses;
  std::vector<std::string> advertise_addresses;
  std::string config;      // as the caller wants it back; not read here
  std::optional<End> end;  // none: the run has not ended, or its supervisor could not say so
};

std::string run_record_path(const std::string& run_directory);

// Replaces the file as a whole; after a crash there is the old one or the new one.
Status save_run_record(const std::string& run_directory, const RunRecord& record);

// kUnavailable: there is none. kInvalid: it cannot be used.
Result<RunRecord> load_run_record(const std::string& run_directory);

}  // namespace elastictrain
