#include "cli/commands/mixed_launcher.h"

#include <utility>

namespace elastictrain::cli {

launcher::Capabilities MixedLauncher::capabilities() const {
  launcher::Capabilities all = ways_.back().launcher->capabilities();
  std::string names;
  for (const Way& way : ways_) names += (names.empty() ? "" : " and ") + way.launcher->capabilities().name;
  all.name = names;
  return all;
}

launcher::Launcher& MixedLauncher::in_charge_of(const std::string& host) const {
  for (const Way& way : ways_) {
    if (way.serves(host)) return *way.launcher;
  }
  return *ways_.back().launcher;
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
