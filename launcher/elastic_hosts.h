// Purpose: a host source that grows and shrinks with what the run wants. A command of the user's is run when slots are
// missing and prints the hosts that it has got, in the forms of a host file (where it prints none, they may appear in
// the source beneath); another one is told the hosts that are not needed any more.
//
// Ownership: owns the source beneath and the commands; destroying it ends them. Thread: the io_context's. Failure: a
// command that fails, or takes too long, is reported and run again later (expansion.h).
#pragma once

#include <asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/command.h"
#include "launcher/expansion.h"

namespace elastictrain::launcher {

struct ElasticHostsOptions {
  std::string expand;  // for the shell; empty: none
  std::string shrink;
  std::string job;  // the run's name, for the commands
  std::chrono::milliseconds timeout{600'000};
  ExpansionSettings settings;
  std::vector<Host> added;  // by an earlier process of this run
  // With all that are added, when that has changed: they are to be known to a later process of this run.
  std::function<void(const std::vector<Host>&)> on_change = [](const std::vector<Host>&) {};
};

class ElasticHosts : public HostSource {
 public:
  // What the run wants and has, asked at each poll; nothing while it cannot say.
  using Demand = std::function<std::optional<HostDemand>()>;
  using Say = std::function<void(const std::string&)>;

  ElasticHosts(asio::io_context& io, std::unique_ptr<HostSource> beneath, ElasticHostsOptions options, Demand demand,
               Say say);
  ~ElasticHosts() override;

  void poll(std::function<void(Result<std::vector<Host>>)> done) override;
  std::uint64_t interval_ms() const override;
  // The job of the batch system that an added host belongs to; empty where it has none of its own.
  std::string job_of(const std::string& host) const;
  // When the run has ended: gives back what was added, and returns when that is done or takes too long.
  void give_all_back();

 private:
  void look();
  void ask(std::uint32_t missing, std::uint32_t wanted);
  void asked(const CommandEnd& end);
  void give_back(const std::vector<Host>& hosts);
  void run_while(const std::function<bool()>& condition);
  // None where it cannot be started, which has been said.
  std::shared_ptr<Command> run(const std::string& text, std::vector<std::string> environment,
                               Command::EndHandler on_end);

  asio::io_context& io_;
  std::unique_ptr<HostSource> beneath_;
  ElasticHostsOptions options_;
  Demand demand_;
  Say say_;
  Expansion expansion_;
  std::vector<Host> known_;  // added ones, also those that leave
  bool over_ = false;
  std::shared_ptr<Command> asking_;
  std::vector<std::weak_ptr<Command>> giving_back_;
  std::shared_ptr<char> life_ = std::make_shared<char>();  // answers that come too late find it gone
};

}  // namespace elastictrain::launcher
