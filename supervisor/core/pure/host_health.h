// Purpose: recent failures of hosts, and when each may be used again. Pure: the owner reports what happened to which
// host, asks before it starts anything on a host, and never reports a graceful leave, a notice or a planned end.
//
// The first failure of a host has no consequence. From the second failure in a row on, the host cools down: nothing is
// started there for cool_down, which doubles with each further failure up to cool_down_max. Success clears the record:
// one of its workers became a member and trained for as long as the cool-down was.
//
// Ownership and thread: those of the state machine that holds it. Hosts are identified by name, because a host that
// comes back has a new agent.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/core/pure/settings.h"
#include "supervisor/protocol/ids.h"

namespace elastictrain::core {

class HostHealth {
 public:
  struct Cooled {
    std::string host;
    std::uint32_t failures = 0;
    Instant until;
    std::string reason;  // of the last failure
  };

  explicit HostHealth(const FailureSettings& settings) : settings_(settings) {}

  // Returns when the host may be used again, if it is cooled now. Failures at one instant count as one (a lost host
  // takes all of its workers with it).
  std::optional<Instant> failed(const std::string& host, const std::string& reason, Instant now);
  // A worker on it has become a member, or still is one: called at every change of the membership.
  void trains(const std::string& host, Instant now);
  // None of its workers is a member any more.
  void rests(const std::string& host);

  bool usable(const std::string& host, Instant now) const;
  std::optional<Instant> cooled_until(const std::string& host, Instant now) const;
  std::uint32_t failures(const std::string& host, Instant now) const;
  std::vector<Cooled> cooled(Instant now) const;
  // The cool-down after this many failures in a row.
  Millis cool_down(std::uint32_t failures) const;
  // "host B failed 3 times in a row (link down) and is not used for 20 s"; empty if it is not cooled.
  std::string text(const std::string& host, Instant now) const;

 private:
  struct Record {
    std::uint32_t failures = 0;
    Instant last;
    Instant until;
    std::optional<Instant> trains_since;
    std::string reason;
  };

  bool verified(const Record& record, Instant now) const;

  FailureSettings settings_;
  std::map<std::string, Record> records_;
};

}  // namespace elastictrain::core
