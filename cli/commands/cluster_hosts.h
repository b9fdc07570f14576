// Purpose: the source of a cluster's hosts, as its file says: a list, a file, or the batch job that it is in; and
// helper jobs that bring more.
//
// Ownership: the caller owns the source. Errors: kInvalid, what is wrong with the file's hosts or the batch job.
#pragma once

#include <asio/io_context.hpp>
#include <functional>
#include <string>

#include "cli/config/cluster_file.h"
#include "supervisor/cluster/cluster_process.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::cli {

// `say` is told what helper jobs do.
Result<cluster::MakeHosts> hosts_of_cluster(asio::io_context& io, const ClusterFile& file,
                                            std::function<void(const std::string&)> say);

}  // namespace elastictrain::cli
