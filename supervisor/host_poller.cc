#include "supervisor/host_poller.h"

#include <asio/error_code.hpp>
#include <chrono>
#include <utility>

namespace elastictrain {
namespace {

constexpr std::chrono::seconds kFirstAnswer{1};

}  // namespace

void HostPoller::stop() {
  life_.reset();
  timer_.cancel();
  first_.cancel();
}

void HostPoller::start(Begin begin) {
  begin_ = begin;
  if (source_.interval_ms() != 0 && begin == Begin::kAnew) {
    first_.expires_after(kFirstAnswer);
    first_.async_wait([this, life = std::weak_ptr(life_)](asio::error_code error) {
      if (!error && !life.expired()) begin_without_answer();
    });
  }
  poll();
}

void HostPoller::begin_without_answer() {
  if (!std::exchange(answered_once_, true)) offered_({});
}

void HostPoller::poll() {
  source_.poll([this, life = std::weak_ptr(life_)](Result<std::vector<launcher::Host>> hosts) {
    if (!life.expired()) answered(hosts);
  });
}

void HostPoller::answered(const Result<std::vector<launcher::Host>>& hosts) {
  const std::weak_ptr<char> life = life_;
  if (hosts.ok()) {
    last_failure_.clear();
    offered_(*hosts);
  } else {
    const bool news = hosts.error().message != last_failure_;
    last_failure_ = hosts.error().message;
    if (news) failed_(last_failure_);
    // The run must learn that there are no hosts; otherwise it would wait for them without a deadline.
    if (!answered_once_ && begin_ == Begin::kAnew) offered_({});
  }
  answered_once_ = true;
  if (life.expired() || source_.interval_ms() == 0) return;
  timer_.expires_after(std::chrono::milliseconds(source_.interval_ms()));
  timer_.async_wait([this, life](asio::error_code error) {
    if (!error && !life.expired()) poll();
  });
}

}  // namespace elastictrain
