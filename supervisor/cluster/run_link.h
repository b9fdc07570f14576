// Purpose: a run's connection to its cluster, for the life of the run's process: joins, passes on what the cluster
// says, reports, and connects again for as long as it lives, because the run trains on without the cluster.
//
// Ownership: borrows the loop; owned by the process of the run, and lent to one supervisor after the other.
// Thread: the io_context's; callbacks run there, after the call that set them has returned.
// Errors: a cluster that is not there, refuses, stalls or talks nonsense, or has become that of another user, is named
// once for each reason; only join_now() returns one.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "supervisor/cluster/lease_protocol.h"
#include "supervisor/cluster/run_report.h"
#include "supervisor/protocol/result.h"
#include "supervisor/transport/local_socket.h"

namespace elastictrain::cluster {

struct RunLinkSettings {
  std::string socket;                         // path; may be longer than a socket's address
  std::string cluster;                        // as the user named it, for messages
  std::chrono::milliseconds timeout{10'000};  // for an answer to a join, and for the last line
  std::chrono::milliseconds retry{200};       // until the next attempt; doubles up to the maximum
  std::chrono::milliseconds retry_max{2'000};
  std::function<std::optional<transport::Peer>(int socket)> peer_of =
      transport::peer_of;  // for tests, which are one user
};

class RunLink {
 public:
  struct Handlers {
    std::function<void(const Lease&)> leased;  // the newest lease, also when the cluster repeats it
    std::function<void(const QueuePlace&)> queued;
    std::function<void(const End&)> ended;
  };
  using Say = std::function<void(bool warning, const std::string& text)>;

  // `join` is asked at each attempt for what the run is and holds then, `say` is told what a user should know.
  RunLink(asio::io_context& io, RunLinkSettings settings, std::function<Join()> join, Say say);
  ~RunLink();
  RunLink(const RunLink&) = delete;
  RunLink& operator=(const RunLink&) = delete;

  // Runs the loop until the cluster has accepted the run. An error: there is no such cluster, it does not answer, or it
  // refuses the run.
  Status join_now();
  // Joins beside the loop, as often as it takes.
  void start();

  // Of the supervisor that follows the lease now. What the cluster has said before is passed on again.
  void follow(Handlers handlers);
  void unfollow() { handlers_ = {}; }

  // Replaces a report that has not been sent yet.
  void report(Report report);
  // The last line; the loop runs until it is sent or the time-out is over. Nothing follows.
  void close(std::uint8_t status);

  Holds& holds() { return holds_; }
  const std::optional<Lease>& lease() const { return lease_; }
  const std::optional<QueuePlace>& queue() const { return queue_; }
  // The batch system's job that a host of any lease so far belongs to; empty: none, or that of the cluster.
  std::string job_of(const std::string& host) const;
  // The id that the cluster gave to the run; empty before.
  const std::string& job() const { return job_; }
  bool connected() const { return joined_; }
  const std::string& cluster() const { return settings_.cluster; }

 private:
  // Handlers of an attempt that is over find another one in its place.
  struct Connection;
  using Attempt = std::shared_ptr<Connection>;

  void connect();
  void connected(const Attempt& attempt);
  std::string why_not_trusted(int socket);
  void read(const Attempt& attempt);
  void take(std::string_view line);
  void on(const Joined& message);
  void on(const Refused& message);
  void on(const Lease& message);
  void on(const QueuePlace& message);
  void on(const End& message);
  void send(std::string line);
  void send_next(const Attempt& attempt);
  void drop(const std::string& why);
  void say_once(const std::string& text);

  asio::io_context& io_;
  const RunLinkSettings settings_;
  const std::function<Join()> join_;
  const Say say_;
  Handlers handlers_;
  Holds holds_;
  Attempt attempt_;
  asio::steady_timer retry_timer_;
  asio::steady_timer answer_timer_;
  std::chrono::milliseconds delay_;
  bool joined_ = false;
  bool closing_ = false;
  bool ever_joined_ = false;
  std::optional<std::uint32_t> user_;  // of the cluster that the run has joined first
  std::string failure_;                // of the last attempt
  std::string said_;                   // the last failure that was named
  std::string job_;
  std::optional<Lease> lease_;
  std::map<std::string, std::string> job_of_host_;
  std::optional<QueuePlace> queue_;
  std::optional<End> end_;
  std::shared_ptr<char> life_ = std::make_shared<char>();
};

}  // namespace elastictrain::cluster
