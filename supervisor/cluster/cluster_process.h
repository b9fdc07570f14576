// Purpose: `elastictrain cluster` at work: the state machine of core/ with its socket, its journal, its hosts, the
// processes of its runs and its clock. It lasts until stop().
//
// Ownership: borrows the loop; owns the host source, which it has made when it knows its journal. Thread: the
// io_context's. Errors: open() says what is wrong; later nothing ends it but stop(), and a broken rule.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>

#include "launcher/host_source.h"
#include "supervisor/cluster/cluster_journal.h"
#include "supervisor/cluster/cluster_server.h"
#include "supervisor/cluster/core/cluster.h"
#include "supervisor/cluster/lease_protocol.h"
#include "supervisor/cluster/run_starter.h"
#include "supervisor/policy/external_sharing.h"
#include "supervisor/protocol/result.h"
#include "supervisor/transport/owned_directory.h"

namespace elastictrain::cluster {

using FindBroken = std::function<std::optional<std::string>(const cluster_core::Cluster&)>;
std::optional<std::string> first_broken_rule(const cluster_core::Cluster& cluster);

struct ClusterOptions {
  std::string name;
  std::string directory;
  bool everyone = false;                        // other users may use it
  std::uint64_t journal_max_bytes = 64u << 20;  // above which the journal is shortened
  cluster_core::Settings settings;
  policy::Outside policy;  // decides if settings.outside
  std::function<void(const std::string&)> say;
  std::function<cluster_core::Probed(const cluster_core::Job&)>
      probe;  // what has become of a run whose connection was lost
  std::function<void(const cluster_core::Cluster&)>
      begun;  // hosts and jobs are known, requests are answered; may be empty
  // A rule is broken. Nothing of that step was written or sent, and nothing is done any more.
  std::function<void(const std::string& rule)> broken;
  // The first rule that does not hold, or nothing. For tests, which break one.
  FindBroken find_broken = first_broken_rule;
};

// What a source of hosts that grows by helper jobs is told.
struct GrowthInputs {
  std::vector<launcher::Host> helpers;                              // that the previous process had
  std::function<std::optional<cluster_core::SlotDemand>()> demand;  // nothing: not known yet
  std::function<void(const cluster_core::HelpersChanged&)> changed;
};
using MakeHosts = std::function<std::unique_ptr<launcher::HostSource>(GrowthInputs)>;

class ClusterProcess {
 public:
  ClusterProcess(asio::io_context& io, ClusterOptions options, MakeHosts make_hosts);
  ~ClusterProcess();
  ClusterProcess(const ClusterProcess&) = delete;
  ClusterProcess& operator=(const ClusterProcess&) = delete;

  Status open();
  // Leaves the runs as they are.
  void stop();

 private:
  GrowthInputs growth_inputs();
  void begin(const std::vector<launcher::Host>& hosts);
  void poll_hosts();
  void give(const cluster_core::Event& event);
  void carry_out(const cluster_core::Actions& actions);
  bool is_broken();
  void shorten_journal();
  void arm();

  void act(const cluster_core::Write&) {}
  void act(const cluster_core::Answer& answer);
  void act(const cluster_core::Welcome& welcome);
  void act(const cluster_core::Refuse& refuse);
  void act(const cluster_core::SendLease& lease);
  void act(const cluster_core::SendPlace& place);
  void act(const cluster_core::SendEnd& end);
  void act(const cluster_core::StartRun& start);
  void act(const cluster_core::SignalRun& signal);
  void act(const cluster_core::Probe& probe);
  void act(const cluster_core::Tell& tell);
  void act(const cluster_core::AskPolicy& ask);

  Status claim_directory();
  Status open_policy();
  void take_answer(policy::OutsideSharing::Answer answer);
  void take_line(std::uint64_t connection, const Peer& peer, const std::string& line);
  void take_request(std::uint64_t connection, const Peer& peer, const nlohmann::json& request);
  void take_message(std::uint64_t connection, const Peer& peer, const nlohmann::json& said);
  void take_join(std::uint64_t connection, const Peer& peer, const Join& join);
  void take_report(std::uint64_t connection, const Report& report);
  void refuse(std::uint64_t connection, const std::string& text);
  std::optional<cluster_core::Slots> slots_from(const std::vector<HostSlots>& holds, std::string& problem) const;
  std::vector<HostSlots> named(const cluster_core::Slots& slots) const;
  cluster_core::Owner owner_of(const Peer& peer) const;
  double now_s() const;

  asio::io_context& io_;
  ClusterOptions options_;
  MakeHosts make_hosts_;
  std::unique_ptr<cluster_core::Cluster> cluster_;
  std::optional<transport::OwnedDirectory> directory_;
  std::unique_ptr<ClusterJournal> journal_;
  std::uint64_t journal_most_bytes_ = 0;
  std::unique_ptr<ClusterServer> server_;
  std::unique_ptr<RunStarter> starter_;
  std::unique_ptr<launcher::HostSource> source_;
  std::unique_ptr<policy::OutsideSharing> policy_;
  std::uint64_t question_ = 0;    // that it has not answered; 0: none
  std::string view_;              // of that question
  std::set<std::uint64_t> runs_;  // connections of runs
  std::uint64_t speaker_ = 0;     // connection whose line is being carried out; 0: none
  asio::steady_timer wake_;
  asio::steady_timer poll_;
  std::chrono::steady_clock::time_point start_;
  double up_before_s_ = 0;
  bool begun_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace elastictrain::cluster
