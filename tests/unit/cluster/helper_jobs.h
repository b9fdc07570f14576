// Purpose: helper jobs that bring hosts to a simulated cluster: the decisions of launcher/expansion.h, carried out as
// launcher/elastic_hosts.h does, and a batch system that takes its time, refuses, brings other sizes than were asked
// for, gives a host to a later job again, and ends jobs without a word. Checked: no more is asked for than the cluster
// may have, and no host is returned on which a run has processes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/expansion.h"
#include "supervisor/cluster/core/cluster.h"

namespace elastictrain::cluster_core::test {

class HelperJobs {
 public:
  struct Surroundings {
    std::function<double(double low, double high)> uniform;
    std::function<void(double delay_s, std::function<void()> what)> later;
    std::function<double()> now_s;
    std::function<std::optional<SlotDemand>()>
        demand;  // nothing: there is no cluster process, or it waits for its runs
    std::function<void(const HelpersChanged&)> changed;
    std::function<void(const std::string& host)> came;            // it runs
    std::function<void(const std::string& host)> gone;            // with all that ran there
    std::function<std::string(const std::string& host)> user_of;  // a run with processes there; empty: none
    std::function<std::uint32_t()> slots, most_slots;             // that are offered now, and that there may be
    std::function<void(const std::string& problem)> fail;
  };

  explicit HelperJobs(Surroundings surroundings) : the_(std::move(surroundings)) {}

  // A cluster process begins with what its journal says, and is killed: its request dies with it.
  void begin(const std::vector<HostLine>& known);
  void kill();
  // The edge looks what is to be done, as it does before each look at the list of hosts.
  void look();
  std::vector<HostLine> hosts() const;
  // The batch system ends one of the jobs.
  void preempt();
  bool any_job() const { return !host_of_job_.empty(); }

  std::uint64_t came = 0, returned = 0, preempted = 0;

 private:
  using What = HelpersChanged::What;
  std::chrono::milliseconds now() const;
  bool chance(double p) { return the_.uniform(0, 1) < p; }
  std::uint32_t whole(std::uint32_t low, std::uint32_t high);
  void tell(What what, std::uint32_t slots, const std::string& text);
  void tell(What what, const std::vector<launcher::Host>& hosts);
  void look_who_lives();
  void ask(std::uint32_t missing);
  void answer(std::uint64_t request, std::uint32_t missing, const std::set<std::string>& not_these);
  std::vector<launcher::Host> bring(std::uint32_t missing, const std::set<std::string>& not_these);
  void give_back(const std::vector<launcher::Host>& hosts);
  void end_job(const std::string& job, bool is_preempted);

  Surroundings the_;
  std::optional<launcher::Expansion> expansion_;  // of the cluster process
  std::uint64_t process_ = 0;                     // counts them
  std::uint64_t request_ = 0;
  bool withdrawn_ = false, looks_ = false;
  std::map<std::string, std::string> host_of_job_;  // jobs that run
  std::set<std::string> seen_;                      // hosts that were there once
  std::uint64_t last_job_ = 0, last_host_ = 0;
};

}  // namespace elastictrain::cluster_core::test
