#include "supervisor/core/warm.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "supervisor/core/host_health.h"
#include "supervisor/core/outbox.h"
#include "supervisor/core/run_end.h"
#include "supervisor/core/settings.h"
#include "supervisor/core/training.h"

namespace elastictrain::core {
namespace {

bool contains(const std::vector<protocol::WarmProcess>& list, WorkerId worker) {
  return std::any_of(list.begin(), list.end(), [&](const auto& process) { return process.worker == worker; });
}

}  // namespace

Warm::Warm(const RunSettings& settings, Roster& roster, Outbox& out, const Training& training, const RunEnd& end,
           const HostHealth& health)
    : settings_(settings), roster_(roster), out_(out), training_(training), end_(end), health_(health) {}

void Warm::on(const WarmReported& event) {
  Agent* agent = roster_.agent(event.agent);
  if (agent == nullptr) return;
  const auto before = std::exchange(agent->warm, {});
  for (const protocol::WarmProcess& process : event.processes) {
    if (process.ending) continue;
    if (!may_stay(*agent, process)) {
      end(*agent, process);
      continue;
    }
    agent->warm.push_back(process);
    if (!contains(before, process.worker)) {
      out_.journal(record::KeptWarm{process.worker, agent->host, process.slot, process.pid});
    }
  }
  for (const protocol::WarmProcess& process : before) {
    if (!contains(agent->warm, process.worker)) out_.journal(record::WarmEnded{process.worker, agent->host});
  }
}

void Warm::advance() {
  for (auto& [id, agent] : roster_.agents()) {
    if (agent.link != Link::kUp) agent.warm.clear();
    if (agent.cut_off) continue;  // it says what it has when it is back
    std::erase_if(agent.warm, [&](const protocol::WarmProcess& process) {
      if (may_stay(agent, process)) return false;
      out_.journal(record::WarmEnded{process.worker, agent.host});
      end(agent, process);
      return true;
    });
  }
}

// One whose worker has not ended yet stays if a shrink let that worker go. The slots of a lease are given back as soon
// as the lease says so.
bool Warm::may_stay(const Agent& agent, const protocol::WarmProcess& process) const {
  const bool usable = agent.usable() && agent.may_use(process.slot) && !end_.begun() && !training_.restarting;
  if (!settings_.keeps_warm || !usable) return false;
  const Place place{agent.id, process.slot};
  if (roster_.is_blamed(place) || !health_.usable(agent.host, out_.now())) return false;
  const std::vector<WorkerId> here = roster_.occupants(place);
  return std::all_of(here.begin(), here.end(),
                     [&](WorkerId id) { return id == process.worker && roster_.worker(id)->may_be_warm; });
}

// An agent that stops ends them by itself.
void Warm::end(const Agent& agent, const protocol::WarmProcess& process) {
  if (!agent.stopping) out_.emit(EndWarm{agent.id, process.worker});
}

}  // namespace elastictrain::core
