// Purpose: this machine by fork and exec, the others by ssh, in one run.
// Thread: as Launcher. Failure: that of the launcher in charge of the host.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "launcher/launcher.h"

namespace elastictrain::cli {

class MixedLauncher : public launcher::Launcher {
 public:
  MixedLauncher(std::unique_ptr<Launcher> here, std::unique_ptr<Launcher> elsewhere)
      : here_(std::move(here)), elsewhere_(std::move(elsewhere)) {}

  launcher::Capabilities capabilities() const override;
  void launch(launcher::AgentSpec spec) override;
  void forget(AgentId agent) override;
  std::vector<std::string> command_line(const std::string& host) const override;

 private:
  Launcher& in_charge_of(const std::string& host) const;

  std::unique_ptr<Launcher> here_;
  std::unique_ptr<Launcher> elsewhere_;
  std::map<AgentId, Launcher*> owners_;
};

}  // namespace elastictrain::cli
