#include "supervisor/core/host_judge.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <string>

#include "supervisor/core/host_health.h"
#include "supervisor/core/outbox.h"
#include "supervisor/core/training.h"

namespace elastictrain::core {

HostJudge::HostJudge(Roster& roster, Outbox& out, Training& training, HostHealth& health)
    : roster_(roster), out_(out), training_(training), health_(health) {}

// With only one host, a crash of the program is no evidence against the host.
void HostJudge::blame(const Loss& loss) {
  if (loss.host.empty() || loss.what == FailureClass::kPreemption) return;
  const auto& agents = roster_.agents();
  const bool others = std::any_of(agents.begin(), agents.end(), [&](const auto& entry) {
    return entry.second.host != loss.host && entry.second.usable();
  });
  if (loss.what != FailureClass::kInfrastructure && !others) return;
  const bool cooled_before = !health_.usable(loss.host, out_.now());
  const std::uint32_t failures_before = health_.failures(loss.host, out_.now());
  const auto until = health_.failed(loss.host, loss.text, out_.now());
  if (!until || health_.failures(loss.host, out_.now()) == failures_before) return;
  out_.journal(record::HostCooled{loss.host, health_.failures(loss.host, out_.now()),
                                  std::chrono::duration_cast<Millis>(*until - out_.now()).count(), loss.text});
  out_.arm({TimerKind::kCooled, {}, {}}, *until);
  if (!cooled_before) out_.tell(Tell::Level::kWarning, health_.text(loss.host, out_.now()));
}

// A generation is complete: hosts that failed before are on probation from here on.
void HostJudge::judge_success() {
  std::set<std::string> train;
  for (WorkerId id : training_.members) {
    if (const Worker* worker = roster_.worker(id)) train.insert(worker->host);
  }
  for (const auto& [id, agent] : roster_.agents()) {
    if (train.contains(agent.host)) {
      health_.trains(agent.host, out_.now());
    } else {
      health_.rests(agent.host);
    }
  }
}

}  // namespace elastictrain::core
