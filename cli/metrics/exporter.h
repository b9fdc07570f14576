// Purpose: shows a run's metrics to those who asked for them: over HTTP (metrics.listen) and as a file for
// node_exporter (metrics.file), which is written again and again and removed when the run ends.
//
// Ownership: borrows the io_context. Thread: the io_context's; the file is written by a thread of its own, so that a
// slow disk does not hold up the run. Errors: what does not work is said once through `warn`; the run goes on.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <functional>
#include <memory>
#include <string>

#include "cli/config/run_config.h"
#include "cli/metrics/http_server.h"
#include "cli/metrics/run_metrics.h"

namespace elastictrain::cli::metrics {

class Exporter {
 public:
  using Say = std::function<void(const std::string&)>;

  // `say`: where the metrics are; `warn`: what does not work.
  Exporter(asio::io_context& io, const MetricsConfig& config, RunMetrics& metrics, Say say, Say warn);
  ~Exporter();
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

 private:
  void write_later();
  void write_file();
  void remove_file();

  const MetricsConfig config_;
  RunMetrics& metrics_;
  Say warn_;
  std::unique_ptr<HttpServer> server_;
  asio::steady_timer timer_;
  struct Writing;
  std::shared_ptr<Writing> writing_;  // shared with a thread that a stuck disk may keep longer than this
  bool has_warned_ = false;
};

}  // namespace elastictrain::cli::metrics
