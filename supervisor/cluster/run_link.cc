#include "supervisor/cluster/run_link.h"

#include <sys/socket.h>

#include <algorithm>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/error_code.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/post.hpp>
#include <asio/read_until.hpp>
#include <asio/write.hpp>
#include <cerrno>
#include <cstring>
#include <utility>
#include <variant>

#include "supervisor/protocol/check.h"

namespace elastictrain::cluster {
namespace {

using Local = asio::local::stream_protocol;

}  // namespace

struct RunLink::Connection {
  explicit Connection(asio::io_context& io) : socket(io) {}
  Local::socket socket;
  std::string input;
  std::string sending;  // in flight
  std::string next;     // the newest line that waits
};

RunLink::RunLink(asio::io_context& io, RunLinkSettings settings, std::function<Join()> join, Say say)
    : io_(io),
      settings_(std::move(settings)),
      join_(std::move(join)),
      say_(std::move(say)),
      retry_timer_(io),
      answer_timer_(io),
      delay_(settings_.retry) {}

RunLink::~RunLink() {
  life_.reset();
  asio::error_code ignored;
  if (attempt_) attempt_->socket.close(ignored);
}

void RunLink::start() {
  asio::post(io_, [this, life = std::weak_ptr(life_)] {
    if (!life.expired()) connect();
  });
}

Status RunLink::join_now() {
  const auto deadline = std::chrono::steady_clock::now() + settings_.timeout;
  connect();
  while (!joined_ && failure_.empty() && std::chrono::steady_clock::now() < deadline) io_.run_one_until(deadline);
  if (joined_) return {};
  retry_timer_.cancel();
  if (failure_.empty()) failure_ = "it does not answer";
  return Error{ErrorCode::kUnavailable, "cannot join cluster " + settings_.cluster + ": " + failure_ + " (" +
                                            settings_.socket + "). Start it with: elastictrain cluster cluster.toml"};
}

void RunLink::connect() {
  failure_.clear();
  joined_ = false;
  attempt_ = std::make_shared<Connection>(io_);
  const auto address = transport::LocalAddress::of(settings_.socket);
  if (!address.ok()) return drop(address.error().message);
  asio::error_code error;
  attempt_->socket.open(Local(), error);
  if (!error) attempt_->socket.non_blocking(true, error);
  if (error) return drop(error.message());
  // A Unix socket is connected to at once, or not at all; the call would wait for a place in the queue of a stopped
  // one.
  const int socket = attempt_->socket.native_handle();
  if (::connect(socket, address->generic(), address->length()) != 0) {
    return drop(errno == EAGAIN ? "it is stopped or too busy" : std::strerror(errno));
  }
  if (const std::string why = why_not_trusted(socket); !why.empty()) return drop(why);
  connected(attempt_);
}

// Whose leases the run follows was its user's choice; a socket in the same place may be somebody else's later.
std::string RunLink::why_not_trusted(int socket) {
  const auto peer = settings_.peer_of(socket);
  if (!peer) return "the system does not say whose it is";
  if (!user_ || peer->uid == *user_) return "";
  return "its socket is that of user " + std::to_string(peer->uid) + " now, and the run has joined a cluster of user " +
         std::to_string(*user_);
}

void RunLink::connected(const Attempt& attempt) {
  answer_timer_.expires_after(settings_.timeout);
  answer_timer_.async_wait([this, life = std::weak_ptr(life_), attempt](asio::error_code stopped) {
    if (!stopped && !life.expired() && attempt == attempt_ && !joined_) drop("it does not answer");
  });
  send(to_line(FromRun(join_())));
  read(attempt);
}

void RunLink::read(const Attempt& attempt) {
  asio::async_read_until(attempt->socket, asio::dynamic_buffer(attempt->input, kMaxLineBytes), '\n',
                         [this, life = std::weak_ptr(life_), attempt](asio::error_code error, std::size_t length) {
                           if (life.expired() || attempt != attempt_) return;
                           if (error == asio::error::not_found) return drop("it sent a line that is too long");
                           if (error) return drop("the connection broke");
                           const std::string line = attempt->input.substr(0, length - 1);
                           attempt->input.erase(0, length);
                           take(line);
                           if (!life.expired() && attempt == attempt_) read(attempt);
                         });
}

void RunLink::take(std::string_view line) {
  const auto message = from_cluster(line);
  if (!message.ok()) return say_once("said something that makes no sense: " + message.error().message);
  std::visit([this](const auto& content) { on(content); }, *message);
}

void RunLink::on(const Joined& message) {
  if (joined_) return;
  if (std::exchange(ever_joined_, true)) say_(false, "connected to cluster " + settings_.cluster + " again");
  answer_timer_.cancel();
  job_ = message.job;
  if (!user_) {
    if (const auto peer = settings_.peer_of(attempt_->socket.native_handle())) user_ = peer->uid;
  }
  joined_ = true;
  said_.clear();
  delay_ = settings_.retry;
}

void RunLink::on(const Refused& message) {
  drop("it refuses the run: " + message.text);
}

void RunLink::on(const Lease& message) {
  if (lease_ && message.version < lease_->version) {
    return say_once("repeated lease " + std::to_string(message.version) + ", which is older than " +
                    std::to_string(lease_->version) + ": it changes nothing");
  }
  lease_ = message;
  if (job_of_host_.size() > kMaxHosts) job_of_host_.clear();  // no end of hosts may be named
  for (const HostSlots& host : message.slots) job_of_host_[host.host] = host.job;
  if (!message.slots.empty()) queue_.reset();
  if (handlers_.leased) handlers_.leased(message);
}

std::string RunLink::job_of(const std::string& host) const {
  const auto found = job_of_host_.find(host);
  return found == job_of_host_.end() ? std::string() : found->second;
}

void RunLink::on(const QueuePlace& message) {
  queue_ = message;
  if (handlers_.queued) handlers_.queued(message);
}

void RunLink::on(const End& message) {
  end_ = message;
  if (handlers_.ended) handlers_.ended(message);
}

void RunLink::follow(Handlers handlers) {
  handlers_ = std::move(handlers);
  asio::post(io_, [this, life = std::weak_ptr(life_)] {
    if (life.expired()) return;
    if (end_ && handlers_.ended) return handlers_.ended(*end_);
    if (lease_ && handlers_.leased) handlers_.leased(*lease_);
    if (queue_ && handlers_.queued) handlers_.queued(*queue_);
  });
}

void RunLink::report(Report report) {
  if (joined_ && !closing_) send(to_line(FromRun(std::move(report))));
}

// The loop is the caller's again when the line is out, or nobody takes it.
void RunLink::close(std::uint8_t status) {
  closing_ = true;
  retry_timer_.cancel();
  const auto deadline = std::chrono::steady_clock::now() + settings_.timeout;
  if (joined_) send(to_line(FromRun(Ended{status})));
  while (joined_ && !attempt_->sending.empty() && std::chrono::steady_clock::now() < deadline) {
    if (io_.stopped()) io_.restart();
    io_.run_one_until(deadline);
  }
  drop("the run has ended");
}

// One line is in flight, and one waits: of reports only the newest counts.
void RunLink::send(std::string line) {
  attempt_->next = std::move(line) + "\n";
  if (attempt_->sending.empty()) send_next(attempt_);
}

void RunLink::send_next(const Attempt& attempt) {
  ET_CHECK(attempt->sending.empty(), "one line is sent at a time");
  attempt->sending = std::exchange(attempt->next, {});
  if (attempt->sending.empty()) return;
  asio::async_write(attempt->socket, asio::buffer(attempt->sending),
                    [this, life = std::weak_ptr(life_), attempt](asio::error_code error, std::size_t) {
                      if (life.expired() || attempt != attempt_) return;
                      attempt->sending.clear();
                      if (error) return drop("the connection broke");
                      send_next(attempt);
                    });
}

void RunLink::drop(const std::string& why) {
  failure_ = why;
  joined_ = false;
  answer_timer_.cancel();
  asio::error_code ignored;
  if (attempt_) attempt_->socket.close(ignored);
  attempt_.reset();
  if (closing_) return;
  if (ever_joined_) say_once("cannot be reached (" + why + "): the run trains on with the slots that it has");
  retry_timer_.expires_after(delay_);
  delay_ = std::min(2 * delay_, settings_.retry_max);
  retry_timer_.async_wait([this, life = std::weak_ptr(life_)](asio::error_code error) {
    if (!error && !life.expired()) connect();
  });
}

void RunLink::say_once(const std::string& text) {
  if (std::exchange(said_, text) != text) say_(true, "cluster " + settings_.cluster + " " + text);
}

}  // namespace elastictrain::cluster
