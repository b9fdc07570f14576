// Purpose: metrics of a run for those who asked for them: over HTTP and as a file.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>

#include "cli/config/checks.h"
#include "cli/config/run_config.h"
#include "cli/metrics/exposition.h"
#include "cli/metrics/run_metrics.h"
#include "supervisor/protocol/result.h"

// Answers GET and HEAD of /metrics, and nothing else, for Prometheus. HTTP/1.1 without anything that a scrape
// does not need: one request for each connection, its size, time and number bounded; where there are too
// many, the oldest ends.
//
// Ownership: closes its sockets at its end. Thread: the io_context's, also for `text`. Errors: open() says which
// address cannot be listened on.

namespace elastictrain::cli::metrics {

class HttpServer {
 public:
  using Text = std::function<std::string(Format)>;

  static Result<std::unique_ptr<HttpServer>> open(asio::io_context& io, const ListenAddress& address, Text text);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::string url() const;

 private:
  struct Shared;
  explicit HttpServer(std::shared_ptr<Shared> shared);
  std::shared_ptr<Shared> shared_;
};

// The answer to a request whose head is complete. Pure.
std::string http_answer(const std::string& head, const HttpServer::Text& text);

// Shows a run's metrics to those who asked for them: over HTTP (metrics.listen) and as a file for
// node_exporter (metrics.file), which is written again and again and removed when the run ends.
//
// Ownership: borrows the io_context. Thread: the io_context's; the file is written by a thread of its own, so that a
// slow disk does not hold up the run. Errors: what does not work is said once through `warn`; the run goes on.

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
