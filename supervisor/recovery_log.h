// Purpose: the recoveries and the last change of a run, from its journal's records as they are written (or read back by
// a later supervisor). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "supervisor/core/pure/records.h"
#include "supervisor/protocol/ids.h"

namespace elastictrain {

class RecoveryLog {
 public:
  struct Last {
    Generation generation = 0;
    std::string reason;            // what was lost, as text
    std::optional<double> idle_s;  // not known until some steps have followed
  };

  struct Change {
    Generation generation = 0;
    std::string reason;
    double up_s = 0;  // when it was complete
  };

  void take(const core::Record& record, double up_s);

  std::uint64_t count() const { return count_; }
  // How often all processes of a program that does not use the library were started again.
  std::uint64_t plain_restarts() const { return plain_restarts_; }
  const std::optional<Last>& last() const { return last_; }
  const std::optional<Change>& last_change() const { return last_change_; }

 private:
  template <class R>
  void on(const R&) {}
  void on(const core::record::Commit& commit);
  void on(const core::record::GenerationComplete& generation);
  void on(const core::record::Idle& idle);
  void on(const core::record::PlainRestart& restart) { plain_restarts_ = restart.count; }

  Generation committed_ = 0;
  std::string reason_;
  double up_s_ = 0;  // of the record that is taken
  std::uint64_t count_ = 0;
  std::uint64_t plain_restarts_ = 0;
  std::optional<Last> last_;
  std::optional<Change> last_change_;
};

}  // namespace elastictrain
