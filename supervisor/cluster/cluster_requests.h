// Purpose: requests of client commands to a cluster, and the answers, as JSON:
//
//   {"command":"submit","job":{"name","arguments":[…],"working_directory","environment":["A=b"],"min","max","start",
//                              "priority","deadline_s"|null,"samples_total"|null,"suspends","one_host","most_hosts","hosts":[…]}}
//                                             -> {"ok":true,"text":"j7 (NAME) is queued","job":"j7"}
//                                                or {"ok":true,"start":"self"}: the user starts the run; another user
//                                                than the cluster's sends no arguments, directory or environment
//   {"command":"queue"}                       -> {"ok":true,"cluster":{…}}
//   {"command":"cancel"|"pause"|"resume","job":"j7"}
//   {"command":"priority","job":"j7","priority":3}
//   any failure                               -> {"ok":false,"status":77,"text":"…"}
//
// Pure. Errors: a text that says which field must be what.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <variant>

#include "supervisor/cluster/core/cluster.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::cluster {

struct QueueRequest {};

// Owner, limits and request are for the caller to fill in.
using ClientRequest = std::variant<QueueRequest, cluster_core::Submit, cluster_core::Command>;

Result<ClientRequest> parse_client_request(const nlohmann::json& object);

std::string answer_of(const cluster_core::Answer& answer);
std::string refusal_answer(cluster_core::Outcome outcome, const std::string& text);
std::string start_yourself_answer();
// To the request that broke a rule of the cluster.
std::string broken_answer(const std::string& rule);

struct ClusterFacts {
  std::string name;
  double now_s = 0;
  bool journal_fails = false;
};
// The answer to QueueRequest: the cluster, its hosts, and all jobs that have not been forgotten.
std::string queue_answer(const cluster_core::Cluster& cluster, const ClusterFacts& facts);

}  // namespace elastictrain::cluster
