// Purpose: answers GET and HEAD of /metrics, and nothing else, for Prometheus. HTTP/1.1 without anything that a scrape
// does not need: one request for each connection, its size, time and number bounded; where there are too
// many, the oldest ends.
//
// Ownership: closes its sockets at its end. Thread: the io_context's, also for `text`. Errors: open() says which
// address cannot be listened on.
#pragma once

#include <asio/io_context.hpp>

#include <functional>
#include <memory>
#include <string>

#include "cli/config/listen_address.h"
#include "cli/metrics/exposition.h"
#include "supervisor/protocol/result.h"

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

}  // namespace elastictrain::cli::metrics
