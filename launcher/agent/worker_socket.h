// Purpose: the Unix socket between one worker and its agent: one path per worker, one connection at a time, a newer
// connection replaces an older one. Only processes of the agent's user are accepted.
//
// Ownership: shared; close() ends it. Thread: the io_context's thread. Errors: a peer that sends malformed data, sends
// too much or does not read is dropped and on_fault reports it; the path stays open, so that the worker may reconnect.
#pragma once

#include <sys/types.h>

#include <asio/io_context.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "supervisor/protocol/codec.h"
#include "supervisor/protocol/result.h"
#include "supervisor/protocol/worker_messages.h"

namespace elastictrain::launcher {

class WorkerSocket : public std::enable_shared_from_this<WorkerSocket> {
 public:
  struct Handlers {
    std::function<void(protocol::WorkerToAgent)> on_message;
    std::function<void(const std::string&)> on_fault;
    std::function<void()> on_disconnect;  // no process is connected any more, all that was sent has been read
    std::function<bool()> may_read;       // false: congestion towards the supervisor, messages wait in the socket
  };

  static Result<std::shared_ptr<WorkerSocket>> open(asio::io_context& io, const std::string& path, WorkerId worker,
                                                    Handlers handlers);
  // Frames wait for a worker that is not connected (yet, or again). They are shared between addressees.
  void send(std::shared_ptr<const std::string> frame);
  // The process at the other end is this worker from here on.
  void belongs_to(WorkerId worker) { worker_ = worker; }
  // The worker has exited: data that it wrote before is read whatever may_read returns.
  void drain() { draining_ = true; }
  // The process that connected last; 0: none yet. It may be a child of the process that was started.
  pid_t peer_pid() const { return peer_pid_; }
  // No data is left to read, and no connection waits to be accepted.
  bool drained() const;
  void close();

  WorkerSocket(asio::io_context& io, WorkerId worker, Handlers handlers);

 private:
  using Protocol = asio::local::stream_protocol;
  struct Peer {
    Peer(Protocol::socket connected, std::size_t max_bytes);
    Protocol::socket socket;
    protocol::FrameReader reader;
    asio::steady_timer pause;
    std::vector<char> block;
  };
  using PeerPtr = std::shared_ptr<Peer>;

  Status listen(const std::string& path);
  void accept();
  void accept_later();
  void admit(Protocol::socket socket);
  void read(const PeerPtr& peer);
  void take(const PeerPtr& peer, std::size_t count);
  void deliver(const PeerPtr& peer, const std::string& body);
  void resume_later(const PeerPtr& peer);
  void write(const PeerPtr& peer);
  void drop(const PeerPtr& peer, const std::string& fault);
  bool may_read() const { return draining_ || handlers_.may_read(); }
  bool is_current(const PeerPtr& peer) const { return !closed_ && peer == peer_; }

  asio::io_context& io_;
  WorkerId worker_;
  Handlers handlers_;
  Protocol::acceptor acceptor_;
  asio::steady_timer accept_pause_;
  PeerPtr peer_;
  pid_t peer_pid_ = 0;
  std::deque<std::shared_ptr<const std::string>> queue_;
  std::size_t queued_bytes_ = 0;
  PeerPtr writing_to_;
  bool draining_ = false;
  bool closed_ = false;
};

}  // namespace elastictrain::launcher
