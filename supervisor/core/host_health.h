// Purpose: which hosts have failed lately, and when they may be used again. Pure: the owner says what happened to whom,
// asks before it starts something on a host, and never reports a graceful leave, a notice or a planned end.
//
// The first failure of a host costs it nothing. From the second in a row on it is cooled: nothing is started there for
// cool_down, which doubles with each further failure up to cool_down_max. Success clears all: a worker of it that
// became a member and trained for as long as the cool-down was.
//
// Ownership and thread: those of the state machine that holds it. Hosts are known by name, since one that comes back
// has a new agent.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/core/settings.h"
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

  // Returns when it may be used again, if it is cooled now. Failures at one instant are one (a host that is lost takes
  // all of its workers).
  std::optional<Instant> failed(const std::string& host, const std::string& reason, Instant now);
  // A worker on it has become a member, or is one still: called at every change of the membership.
  void trains(const std::string& host, Instant now);
  // None of its workers is a member any more.
  void rests(const std::string& host);

  bool usable(const std::string& host, Instant now) const;
  std::optional<Instant> cooled_until(const std::string& host, Instant now) const;
  std::uint32_t failures(const std::string& host, Instant now) const;
  std::vector<Cooled> cooled(Instant now) const;
  // What so many failures in a row cost.
  Millis cool_down(std::uint32_t failures) const;
  // "host B failed 3 times in a row (link down) and is left alone for 20 s"; empty when it is not cooled.
  std::string text(const std::string& host, Instant now) const;

 private:
  struct Record {
    std::uint32_t failures = 0;
    Instant last;
    Instant until;
    std::optional<Instant> trains_since;
    std::string reason;
  };

  bool proven(const Record& record, Instant now) const;

  FailureSettings settings_;
  std::map<std::string, Record> records_;
};

}  // namespace elastictrain::core
