#include "cli/metrics/exporter.h"

#include <algorithm>
#include <asio/buffer.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read_until.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <cctype>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "cli/output/whole_file.h"

namespace elastictrain::cli::metrics {
namespace {

using Tcp = asio::ip::tcp;

constexpr std::size_t kMaxHeadBytes = 8 * 1024;
constexpr std::size_t kMaxScrapes = 16;
constexpr std::chrono::seconds kScrapeDeadline{10};
constexpr std::chrono::milliseconds kAcceptAgain{50};

std::string lowercase(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string answer_text(const std::string& status, const char* type, const std::string& body, bool head_only) {
  return "HTTP/1.1 " + status + "\r\nContent-Type: " + type + "\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n" + (head_only ? "" : body);
}

}  // namespace

// One connection, ended by its answer or by its deadline.
class Scrape : public std::enable_shared_from_this<Scrape> {
 public:
  Scrape(Tcp::socket socket, HttpServer::Text text)
      : socket_(std::move(socket)), deadline_(socket_.get_executor()), text_(std::move(text)) {}

  void begin() {
    deadline_.expires_after(kScrapeDeadline);
    deadline_.async_wait([self = std::weak_ptr(weak_from_this())](asio::error_code error) {
      const auto scrape = self.lock();
      if (!error && scrape) scrape->end();
    });
    asio::async_read_until(socket_, asio::dynamic_buffer(head_, kMaxHeadBytes), "\r\n\r\n",
                           [self = shared_from_this()](asio::error_code error, std::size_t) {
                             if (!error) self->answer();
                           });
  }

  void end() {
    asio::error_code ignored;
    socket_.close(ignored);
    deadline_.cancel();
  }

 private:
  void answer() {
    answer_ = http_answer(head_, text_);
    asio::async_write(socket_, asio::buffer(answer_), [self = shared_from_this()](asio::error_code, std::size_t) {
      asio::error_code ignored;
      self->deadline_.cancel();
      self->socket_.shutdown(Tcp::socket::shutdown_both, ignored);
    });
  }

  Tcp::socket socket_;
  asio::steady_timer deadline_;
  HttpServer::Text text_;
  std::string head_;
  std::string answer_;
};

struct HttpServer::Shared : std::enable_shared_from_this<Shared> {
  Shared(asio::io_context& io, Text given) : acceptor(io), again(io), text(std::move(given)) {}

  void accept() {
    acceptor.async_accept([self = shared_from_this()](asio::error_code error, Tcp::socket socket) {
      if (!self->acceptor.is_open()) return;
      if (error) return self->accept_later();
      self->begin(std::make_shared<Scrape>(std::move(socket), self->text));
      self->accept();
    });
  }

  // Whoever asks slowly, or does not read, keeps no other out: where all places are taken the oldest ends.
  void begin(const std::shared_ptr<Scrape>& scrape) {
    std::erase_if(scrapes, [](const auto& one) { return one.expired(); });
    if (scrapes.size() >= kMaxScrapes) {
      if (const auto oldest = scrapes.front().lock()) oldest->end();
      scrapes.pop_front();
    }
    scrapes.push_back(scrape);
    scrape->begin();
  }

  // No descriptor is free, for example.
  void accept_later() {
    again.expires_after(kAcceptAgain);
    again.async_wait([self = shared_from_this()](asio::error_code error) {
      if (!error && self->acceptor.is_open()) self->accept();
    });
  }

  Tcp::acceptor acceptor;
  asio::steady_timer again;
  Text text;
  std::deque<std::weak_ptr<Scrape>> scrapes;  // the oldest first; they end by themselves
};

std::string http_answer(const std::string& head, const HttpServer::Text& text) {
  const std::string line = head.substr(0, head.find("\r\n"));
  const std::size_t space = line.find(' ');
  const std::size_t second = line.find(' ', space == std::string::npos ? space : space + 1);
  if (second == std::string::npos || line.compare(second + 1, 5, "HTTP/") != 0) {
    return answer_text("400 Bad Request", "text/plain", "not a request of HTTP\n", false);
  }
  const std::string method = line.substr(0, space);
  const std::string target = line.substr(space + 1, second - space - 1);
  const bool head_only = method == "HEAD";
  if (method != "GET" && !head_only) return answer_text("405 Method Not Allowed", "text/plain", "GET only\n", false);
  if (target.substr(0, target.find('?')) != "/metrics") {
    return answer_text("404 Not Found", "text/plain", "the metrics are at /metrics\n", head_only);
  }
  const bool open = lowercase(head).find("application/openmetrics-text") != std::string::npos;
  const Format format = open ? Format::kOpenMetrics : Format::kText;
  return answer_text("200 OK", content_type(format), text(format), head_only);
}

HttpServer::HttpServer(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

HttpServer::~HttpServer() {
  asio::error_code ignored;
  shared_->acceptor.close(ignored);
  shared_->again.cancel();
}

Result<std::unique_ptr<HttpServer>> HttpServer::open(asio::io_context& io, const ListenAddress& address, Text text) {
  asio::error_code error;
  const Tcp::endpoint endpoint(asio::ip::make_address(address.address, error), address.port);
  auto shared = std::make_shared<Shared>(io, std::move(text));
  Tcp::acceptor& acceptor = shared->acceptor;
  if (!error) acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(Tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    return Error{ErrorCode::kUnavailable, "metrics.listen: cannot listen on " + address.address + ":" +
                                              std::to_string(address.port) + ": " + error.message()};
  }
  shared->accept();
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(shared)));
}

std::string HttpServer::url() const {
  asio::error_code ignored;
  const Tcp::endpoint endpoint = shared_->acceptor.local_endpoint(ignored);
  const std::string address = endpoint.address().to_string();
  return "http://" + (endpoint.address().is_v6() ? "[" + address + "]" : address) + ":" +
         std::to_string(endpoint.port()) + "/metrics";
}

namespace {

constexpr std::chrono::seconds kLastWrite{2};  // for a write that is in progress when the run ends

}  // namespace

struct Exporter::Writing {
  std::mutex mutex;
  std::condition_variable ended;
  bool is_busy = false;
  std::string problem;
};

Exporter::Exporter(asio::io_context& io, const MetricsConfig& config, RunMetrics& metrics, Say say, Say warn)
    : config_(config), metrics_(metrics), warn_(std::move(warn)), timer_(io), writing_(std::make_shared<Writing>()) {
  if (!config_.listen.empty()) {
    const auto address = parse_listen(config_.listen);
    auto server = address.ok() ? HttpServer::open(io, *address, [this](Format format) { return metrics_.text(format); })
                               : Result<std::unique_ptr<HttpServer>>(address.error());
    if (server.ok()) {
      server_ = std::move(*server);
      say("metrics: " + server_->url());
    } else {
      warn_("the metrics are not served: " + server.error().message);
    }
  }
  if (!config_.file.empty()) write_file();
}

Exporter::~Exporter() {
  if (!config_.file.empty()) remove_file();
}

void Exporter::write_later() {
  timer_.expires_after(std::chrono::milliseconds(config_.interval_ms));
  timer_.async_wait([this](asio::error_code error) {
    if (!error) write_file();
  });
}

void Exporter::write_file() {
  write_later();
  std::string problem;
  {
    const std::lock_guard lock(writing_->mutex);
    if (writing_->is_busy) return;
    writing_->is_busy = true;
    problem = std::exchange(writing_->problem, "");
  }
  if (!problem.empty() && !std::exchange(has_warned_, true)) {
    warn_("metrics.file " + config_.file + " cannot be written: " + problem);
  }
  std::thread([writing = writing_, path = config_.file, text = metrics_.text(Format::kText)] {
    const std::error_code failed = write_whole_file(path, text);
    const std::lock_guard lock(writing->mutex);
    writing->problem = failed ? failed.message() : "";
    writing->is_busy = false;
    writing->ended.notify_all();
  }).detach();
}

// A run that has ended has no metrics: node_exporter would show the last ones for ever.
void Exporter::remove_file() {
  std::unique_lock lock(writing_->mutex);
  if (!writing_->ended.wait_for(lock, kLastWrite, [this] { return !writing_->is_busy; })) return;
  remove_whole_file(config_.file);
}

}  // namespace elastictrain::cli::metrics
