// Purpose: the authoritative record of a run: append-only JSON lines,
//   {"seq":N,"t":unix seconds with microseconds,"up":seconds since the start,"event":"…",fields…}
// (JOURNAL.md), numbered on from what the file already holds. A line that an earlier run left torn is kept, separately,
// and the record "journal_torn" follows it. Ownership: owns the descriptor. Thread: the io_context's. Errors: a record
// that cannot be written (a full disk) is counted and reported once; writing is retried, and the first record that
// succeeds is followed by one with the number of missing records, and by the caller's summary of their content.
// Training never waits for it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "supervisor/core/pure/action.h"
#include "supervisor/protocol/result.h"

namespace elastictrain {

class Journal {
 public:
  using Report = std::function<void(core::Tell::Level, const std::string&)>;

  static Result<std::unique_ptr<Journal>> open(const std::string& path, Report report);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // With `sync`, the record is on disk when this returns (or its failure has been reported). Returns true if records
  // before it are missing and writing works again.
  bool write(const core::Record& record, bool sync);

  // "up" continues from the value that the run had reached under an earlier supervisor.
  void count_up_from(double up_s);

  const std::string& path() const { return path_; }

 private:
  Journal(std::string path, int descriptor, Report report);
  Status read_tail();
  std::string line_of(const core::Record& record) const;
  bool append(const std::string& line);
  void sync();
  void failed(int error);
  void recovered();

  std::string path_;
  int descriptor_;
  Report report_;
  std::chrono::steady_clock::time_point start_;
  double up_before_s_ = 0;
  std::uint64_t sequence_ = 0;  // of the last record
  std::uint64_t lost_ = 0;      // records since writing began to fail
  bool torn_ = false;           // the file does not end with a line end
  bool failing_ = false;
};

}  // namespace elastictrain
