#include "supervisor/core/outbox.h"

namespace elastictrain::core {

void Outbox::begin_step(Instant now) {
  now_ = now;
  actions_.clear();
}

void Outbox::send(std::vector<WorkerId> workers, protocol::WorkerDown message) {
  emit(SendToWorkers{std::move(workers), std::move(message)});
}

void Outbox::tell(Tell::Level level, std::string text) {
  emit(Tell{level, std::move(text)});
}

std::uint64_t Outbox::arm(TimerUse use, Instant when) {
  const std::uint64_t timer = timers_.add(use);
  emit(ArmTimer{timer, when});
  return timer;
}

void Outbox::cancel(std::uint64_t& timer) {
  if (timer != 0 && timers_.remove(timer)) emit(CancelTimer{timer});
  timer = 0;
}

}  // namespace elastictrain::core
