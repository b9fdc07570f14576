// Purpose: the journal of a cluster: JSON lines {"seq","t","up","event",…}, appended, on disk before what they say is
// carried out. Hosts have their names in it, so that it can be read with anything.
//
// Ownership: owns the descriptor. Thread: the io_context's. Errors: open() says what is wrong; a line that cannot be
// read is left out and counted; a write that fails (a full disk) is reported once, and failing() says so until it works
// again.
//
// It is shortened when it has become long: lines that say nothing of what is known now are left out. The whole one
// stays beside it as journal.1.jsonl, until the next time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/cluster/core/action.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::cluster {

// One line without its end. `hosts`: the names by number.
std::string journal_line(const cluster_core::Record& record, const std::vector<cluster_core::HostLine>& hosts,
                         std::uint64_t sequence, double unix_s, double up_s);

// The events that a cluster's journal may have.
std::vector<std::string> event_names();

struct JournalLine {
  cluster_core::Record record;
  std::uint64_t sequence = 0;
  double up_s = 0;
};
// Nothing: it is no line of a cluster's journal, names a host that no earlier line has, or is a list of hosts without
// one of the earlier ones.
std::optional<JournalLine> read_journal_line(const std::string& line, const std::vector<cluster_core::HostLine>& hosts);

class ClusterJournal {
 public:
  using Take = std::function<void(const cluster_core::Record&, double up_s)>;

  // Reads what is there, line by line, then appends. A last line that was torn stays, alone. Lines that cannot be read
  // are left out; `report` is told.
  static Result<std::unique_ptr<ClusterJournal>> open(const std::string& path, const Take& take,
                                                      std::function<void(const std::string&)> report);
  ~ClusterJournal();
  ClusterJournal(const ClusterJournal&) = delete;
  ClusterJournal& operator=(const ClusterJournal&) = delete;

  void write(const cluster_core::Record& record, double unix_s, double up_s);
  // What was written is on disk when this returns.
  void sync();
  bool failing() const { return failing_; }
  // Longer than this, and at least half of it was written since it was shortened last.
  bool is_longer_than(std::uint64_t bytes) const { return bytes_ > bytes && bytes_ / 2 > shortened_bytes_; }
  // Leaves out the lines whose record is not needed; those that cannot be read, too. On an error it stays as it is.
  Status shorten(const std::function<bool(const cluster_core::Record&)>& needs);
  // After a failure: writes an empty line. Returns whether records can be written now.
  bool try_again();
  double last_up_s() const { return last_up_s_; }
  std::uint64_t unreadable() const { return unreadable_; }

 private:
  ClusterJournal(std::string path, int descriptor, std::function<void(const std::string&)> report)
      : path_(std::move(path)), descriptor_(descriptor), report_(std::move(report)) {}
  // Each line without its end; what follows the last one is `rest`.
  Status each_line(const std::function<void(const std::string&)>& use, std::string& rest) const;
  Status read(const Take& take);
  Status write_shorter(int descriptor, const std::function<bool(const cluster_core::Record&)>& needs);
  Status take_place(const std::string& shorter);
  void take_line(const std::string& line, const Take& take);
  void learn_hosts(const cluster_core::Record& record);
  void failed(int error);
  void works_again();

  std::string path_;
  int descriptor_;
  std::function<void(const std::string&)> report_;
  std::vector<cluster_core::HostLine> hosts_;
  std::uint64_t sequence_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t shortened_bytes_ = 0;  // what was left when it was shortened last
  std::uint64_t lines_ = 0;
  std::uint64_t unreadable_ = 0;
  std::uint64_t first_unreadable_ = 0;  // its number, from 1
  std::uint64_t lost_ = 0;
  double last_up_s_ = 0;
  bool torn_ = false;
  bool failing_ = false;
  bool unsynced_ = false;
};

}  // namespace elastictrain::cluster
