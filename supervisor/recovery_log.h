// Purpose: the recoveries of a run, from its journal's records as they are written (or read back by a later
// supervisor). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "supervisor/journal.h"
#include "supervisor/protocol/ids.h"

namespace elastictrain {

class RecoveryLog {
 public:
  struct Last {
    Generation generation = 0;
    std::string reason;            // what was lost, as text
    std::optional<double> idle_s;  // not known until some steps have followed
  };

  void take(const std::string& event, const Journal::Fields& fields);

  std::uint64_t count() const { return count_; }
  const std::optional<Last>& last() const { return last_; }

 private:
  Generation committed_ = 0;
  std::string reason_;
  std::uint64_t count_ = 0;
  std::optional<Last> last_;
};

}  // namespace elastictrain
