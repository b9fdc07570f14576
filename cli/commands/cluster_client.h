// Purpose: shared by the commands for a cluster: find it, ask it, report an error. Blocking, with a deadline.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "cli/commands/command.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::cli {

// --cluster, into `target`; without it $ELASTICTRAIN_CLUSTER counts, then the only cluster that is running.
Argument cluster_flag(std::string& target);

// --cluster of commands that read a cluster's journal instead of a run's; it need not be running.
Argument cluster_journal_flag(std::string& target);

// <state>/clusters/NAME, or the directory that a path with a / in it names (its own, or that of the socket).
Result<std::string> directory_of_cluster(const std::string& name_or_path);

// The directory of the cluster that is meant.
Result<std::string> find_cluster(const std::string& name_or_path);

struct ClusterAnswer {
  nlohmann::json object;
  int status = 0;    // exit status: 0 if it agreed
  std::string text;  // of its refusal, or what went wrong
};
ClusterAnswer ask_cluster(const std::string& name_or_path, const nlohmann::json& request);
// The request is made when it is known whether the process at the socket is one of this user; nothing is sent before.
using MakeRequest = std::function<nlohmann::json(bool own)>;
ClusterAnswer ask_cluster(const std::string& name_or_path, const MakeRequest& make_request);

// Prints the answer's text, or the error after the command's name. Returns the exit status.
int show_answer(std::string_view command, const ClusterAnswer& answer);

}  // namespace elastictrain::cli
