#include "cli/commands/mixed_launcher.h"

#include <utility>

#include "cli/commands/run_plan.h"

namespace elastictrain::cli {

launcher::Capabilities MixedLauncher::capabilities() const {
  launcher::Capabilities both = elsewhere_->capabilities();
  both.name = here_->capabilities().name + " and " + both.name;
  return both;
}

launcher::Launcher& MixedLauncher::in_charge_of(const std::string& host) const {
  return is_this_host(host) ? *here_ : *elsewhere_;
}

void MixedLauncher::launch(launcher::AgentSpec spec) {
  Launcher& launcher = in_charge_of(spec.host);
  owners_[spec.agent] = &launcher;
  launcher.launch(std::move(spec));
}

void MixedLauncher::forget(AgentId agent) {
  const auto owner = owners_.find(agent);
  if (owner == owners_.end()) return;
  owner->second->forget(agent);
  owners_.erase(owner);
}

std::vector<std::string> MixedLauncher::command_line(const std::string& host) const {
  return in_charge_of(host).command_line(host);
}

}  // namespace elastictrain::cli
