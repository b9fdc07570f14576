// Purpose: decides when more hosts are requested, and which of those are returned. Pure: time is an argument.
//
// Thread: one. Errors: none; the caller reports the result of a request.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
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
};

struct HostDemand {
  std::uint32_t needed_slots = 0;
  std::vector<HostUse> hosts;
};

struct ExpansionSettings {
  bool can_expand = false;
  bool can_shrink = false;
  std::chrono::milliseconds retry_after{10'000};  // doubles with each failure in a row …
  std::chrono::milliseconds longest_retry{600'000};
  std::chrono::milliseconds shrink_after{60'000};  // a host that is not needed for this long is returned
};

class Expansion {
 public:
  using Instant = std::chrono::milliseconds;  // since any fixed moment

  struct Step {
    std::uint32_t missing_slots = 0;  // more than 0: request them now
    std::vector<Host> released;       // no longer among added()
  };

  explicit Expansion(ExpansionSettings settings, std::vector<Host> added = {})
      : settings_(settings), added_(std::move(added)) {}

  // One request at a time: none follows before answer() or failure() of the last one.
  Step step(const HostDemand& demand, Instant now);
  void answer(const std::vector<Host>& hosts, Instant now);
  void failure(Instant now);

  const std::vector<Host>& added() const { return added_; }

 private:
  std::uint32_t offered_slots(const HostDemand& demand) const;
  bool is_idle(const Host& host, const HostDemand& demand, std::uint32_t offered) const;
  void release_idle(const HostDemand& demand, Instant now, Step& step);

  ExpansionSettings settings_;
  std::vector<Host> added_;
  std::map<std::string, Instant> idle_since_;
  Instant next_request_{0};
  std::uint32_t failures_ = 0;
  bool asking_ = false;
};

}  // namespace elastictrain::launcher
