#include "train/comm/rendezvous.h"

#include <poll.h>

#include <algorithm>
#include <iterator>

#include "train/comm/incoming_handshakes.h"
#include "train/comm/outgoing_handshake.h"

namespace elastictrain::comm {
namespace {

constexpr std::chrono::milliseconds kMaxWait{1000};

class Rendezvous {
 public:
  Rendezvous(const RendezvousPlan& plan, DataListener& listener, const CancelToken& cancel)
      : cancel_(cancel), incoming_(plan, listener) {
    for (const auto& target : plan.outgoing) outgoing_.emplace_back(plan, target);
  }

  Result<std::vector<PeerSocket>> run(Deadline deadline) {
    for (;;) {
      const auto now = std::chrono::steady_clock::now();
      for (auto& peer : outgoing_) peer.advance(now);
      incoming_.advance(now);
      if (done()) return take();
      if (auto status = agreement(); !status) return status.error();
      if (cancel_.cancelled()) return Error{ErrorCode::kAborted, "building the communicator was cancelled"};
      if (now >= deadline) return Error{ErrorCode::kTimeout, "not all peers were reached in time: " + missing()};
      wait(now, deadline);
    }
  }

 private:
  bool done() const {
    return incoming_.done() && std::all_of(outgoing_.begin(), outgoing_.end(), [](auto& peer) { return peer.done(); });
  }

  Status agreement() const {
    for (const auto& peer : outgoing_) {
      if (auto status = peer.agreement(); !status) return status;
    }
    return incoming_.agreement();
  }

  void wait(Deadline now, Deadline deadline) {
    fds_.assign(1, {cancel_.fd(), POLLIN, 0});
    auto until = std::min(deadline, now + kMaxWait);
    for (const auto& peer : outgoing_) {
      if (peer.done()) continue;
      if (peer.fd() >= 0) fds_.push_back({peer.fd(), peer.events(), 0});
      until = std::min(until, peer.retry_at());
    }
    incoming_.add_to(fds_);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
    ::poll(fds_.data(), fds_.size(), static_cast<int>(std::max<long long>(left, 0)));
  }

  std::vector<PeerSocket> take() {
    auto sockets = incoming_.take();
    std::transform(outgoing_.begin(), outgoing_.end(), std::back_inserter(sockets),
                   [](auto& peer) { return peer.take(); });
    return sockets;
  }

  std::string missing() const {
    std::string text = incoming_.missing();
    for (const auto& peer : outgoing_) {
      if (peer.done()) continue;
      if (!text.empty()) text += "; ";
      text += peer.last_error();
    }
    return text;
  }

  const CancelToken& cancel_;
  IncomingHandshakes incoming_;
  std::vector<OutgoingHandshake> outgoing_;
  std::vector<pollfd> fds_;
};

}  // namespace

Result<std::vector<PeerSocket>> rendezvous(const RendezvousPlan& plan, DataListener& listener,
                                           const CancelToken& cancel, Deadline deadline) {
  return Rendezvous(plan, listener, cancel).run(deadline);
}

}  // namespace elastictrain::comm
