// Purpose: several ways to reach hosts in one run: this machine by fork and exec, the hosts of an allocation by the
// batch system's tool, the others by ssh.
// Thread: as Launcher. Errors: those of the launcher in charge of the host.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launcher/launcher.h"

namespace elastictrain::cli {

class MixedLauncher : public launcher::Launcher {
 public:
  struct Way {
    std::function<bool(const std::string& host)> serves;
    std::unique_ptr<Launcher> launcher;
  };

  // The first way that serves a host is in charge of it; the last one serves every host.
  explicit MixedLauncher(std::vector<Way> ways) : ways_(std::move(ways)) {}

  launcher::Capabilities capabilities() const override;
  void launch(launcher::AgentSpec spec) override;
  void forget(AgentId agent) override;
  std::vector<std::string> command_line(const std::string& host) const override;

 private:
  Launcher& in_charge_of(const std::string& host) const;

  std::vector<Way> ways_;
  std::map<AgentId, Launcher*> owners_;
};

}  // namespace elastictrain::cli
