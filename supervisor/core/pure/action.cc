#include "supervisor/core/pure/action.h"

namespace elastictrain::core {

template <class T>
void Outbox::emit(T action) {
  actions_.emplace_back(std::move(action));
}
template void Outbox::emit(LaunchAgent);
template void Outbox::emit(StopAgent);
template void Outbox::emit(SpawnWorker);
template void Outbox::emit(StopWorker);
template void Outbox::emit(AskAgent);
template void Outbox::emit(KeepWarm);
template void Outbox::emit(EndWarm);
template void Outbox::emit(SendToWorkers);
template void Outbox::emit(ArmTimer);
template void Outbox::emit(CancelTimer);
template void Outbox::emit(Journal);
template void Outbox::emit(Reply);
template void Outbox::emit(Tell);
template void Outbox::emit(EndRun);
template void Outbox::emit(EndProcess);

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
