// Purpose: a host source that grows and shrinks with the run's target size. A command of the user runs when slots are
// missing and prints the hosts that it got, in the formats of a host file (if it prints none, they may appear in the
// underlying source); another command receives the hosts that are not needed any more. A third one may say which of
// their jobs still run; the hosts of the others are not offered any more.
//
// Ownership: owns the underlying source and the commands; destroying it ends them. Thread: the io_context's. Errors: a
// command that fails, or takes too long, is reported and run again later (expansion.h).
#pragma once

#include <asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/expansion.h"
#include "launcher/process/command.h"

namespace elastictrain::launcher {

// What happens to added hosts, told before it is carried out.
struct HostsChange {
  enum class What : std::uint8_t {
    kAsked,      // slots: that are missing
    kWithdrawn,  // the request is not needed any more
    kFailed,     // the request; text: why
    kCame,       // slots
    kLeft,       // slots: of hosts that are not needed; whoever works there moves first
    kLost,       // slots: of hosts whose job does not run any more
    kReturned,   // slots
  };
  What what = What::kAsked;
  std::uint32_t slots = 0;
  std::string text;         // names of the hosts, or why
  std::vector<Host> known;  // all hosts that have to be returned one day: a later process must know them
};

struct ElasticHostsOptions {
  std::string expand;  // for the shell; empty: none
  std::string shrink;
  std::string alive;  // gets the jobs of added hosts, and prints those that still run
  std::string job;    // the run's name, for the commands
  std::chrono::milliseconds timeout{600'000};
  std::chrono::milliseconds alive_interval{10'000};
  ExpansionSettings settings;
  std::vector<Host> added;  // by an earlier process of this run
  std::function<void(const HostsChange&)> on_change = [](const HostsChange&) {};
};

class ElasticHosts : public HostSource {
 public:
  // The target and the present size of the run, queried at each poll; nothing while they are not known.
  using Demand = std::function<std::optional<HostDemand>()>;
  using Say = std::function<void(const std::string&)>;

  ElasticHosts(asio::io_context& io, std::unique_ptr<HostSource> beneath, ElasticHostsOptions options, Demand demand,
               Say say);
  ~ElasticHosts() override;

  void poll(std::function<void(Result<std::vector<Host>>)> done) override;
  std::uint64_t interval_ms() const override;
  // The batch system's job that an added host belongs to; empty if it has no job of its own.
  std::string job_of(const std::string& host) const;
  // After the end of the run: returns the added hosts, and completes when that is done or takes too long.
  void give_all_back();

 private:
  void look();
  void tell(HostsChange::What what, std::uint32_t slots, std::string text);
  void tell(HostsChange::What what, const std::vector<Host>& hosts);
  void ask(std::uint32_t missing, std::uint32_t wanted);
  void asked(const CommandEnd& end);
  void failed(const std::string& why);
  void withdraw();
  void look_who_lives();
  void lives(const std::vector<Host>& looked_at, const CommandEnd& end);
  void give_back(const std::vector<Host>& hosts);
  void run_while(const std::function<bool()>& condition);
  // None if it cannot be started, which has been reported.
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
  bool withdrawn_ = false;
  std::shared_ptr<Command> asking_;
  std::shared_ptr<Command> looking_;
  Expansion::Instant next_look_{0};
  bool look_failed_ = false;  // and was reported
  std::vector<std::weak_ptr<Command>> giving_back_;
  std::shared_ptr<char> life_ = std::make_shared<char>();  // answers that come too late find it expired
};

}  // namespace elastictrain::launcher
