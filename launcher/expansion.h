// Purpose: decides when more hosts are requested, and which of those are returned. Pure: time is an argument.
//
// A host that is to be returned is left first: it is no longer among added(), so nobody begins to work there, and is
// released when nobody works there any more.
//
// Thread: one. Errors: none; the caller reports the result of a request.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/host_source.h"

namespace elastictrain::launcher {

// A host of the run; a host that cannot take workers now has no slots.
struct HostUse {
  std::string name;
  std::uint32_t slots = 0;
  std::uint32_t workers = 0;
  // False: the run's list of hosts lacks it. If it was added, it is new, or back while earlier workers still end there.
  bool listed = true;
};

struct HostDemand {
  std::uint32_t needed_slots = 0;
  std::vector<HostUse> hosts;
  // A host that is not needed is given back although it has workers: they move first.
  bool can_vacate = false;
};

struct ExpansionSettings {
  bool can_expand = false;
  bool can_shrink = false;
  std::chrono::milliseconds retry_after{10'000};  // doubles with each failure in a row …
  std::chrono::milliseconds longest_retry{600'000};
  std::chrono::milliseconds expand_after{0};       // slots that are missing for this long are requested
  std::chrono::milliseconds shrink_after{60'000};  // a host, or a request, that is not needed for this long is given up
};

class Expansion {
 public:
  using Instant = std::chrono::milliseconds;  // since any fixed moment

  struct Step {
    std::uint32_t missing_slots = 0;  // more than 0: request them now
    bool withdraw = false;            // the request in progress is not needed any more
    std::vector<Host> leaves;         // no longer among added()
    std::vector<Host> released;       // nobody works there any more: return them
  };

  explicit Expansion(ExpansionSettings settings, std::vector<Host> added = {})
      : settings_(settings), added_(std::move(added)) {}

  // One request at a time: none follows before answer(), failure() or withdrawn() of the last one.
  Step step(const HostDemand& demand, Instant now);
  void answer(const std::vector<Host>& hosts, Instant now);
  void failure(Instant now);
  void withdrawn() { asking_ = false; }
  // These are going, or gone, by themselves: they are left at once. Returns those that are news.
  std::vector<Host> lost(const std::vector<std::string>& names, Instant now);

  const std::vector<Host>& added() const { return added_; }
  // It is to be returned as soon as nobody works there.
  bool is_left(const std::string& name) const;
  // All that have to be returned one day: those that are added, and those that are being left.
  std::vector<Host> known() const;

 private:
  std::uint32_t offered_slots(const HostDemand& demand) const;
  bool is_surplus(const Host& host, const HostDemand& demand, std::uint32_t offered) const;
  std::vector<std::string> by_workers(const HostDemand& demand) const;
  void replace_left(const Host& back);
  Host leave(const std::string& name);
  void leave_surplus(const HostDemand& demand, Instant now, Step& step);
  void release_left(const HostDemand& demand, Step& step);
  void request(const HostDemand& demand, Instant now, Step& step);

  ExpansionSettings settings_;
  std::vector<Host> added_;
  std::vector<Host> left_;
  std::vector<Host> replaced_;  // left, and back by another job: the earlier one is to be returned
  std::map<std::string, Instant> surplus_since_;
  std::map<std::string, Instant> added_at_;
  std::optional<Instant> short_since_;
  std::optional<Instant> enough_since_;
  Instant next_request_{0};
  std::uint32_t failures_ = 0;
  bool asking_ = false;
};

}  // namespace elastictrain::launcher
