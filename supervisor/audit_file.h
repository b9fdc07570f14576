// Purpose: the workers' reports in audit mode, stored next to the journal so that the ledger survives a restart of the
// supervisor. Append-only, one batch per line; a record is written before the ledger takes it:
//   {"worker":1,"batch":3,"of":0,"steps":[[generation,step,epoch,first position,count],…]}
// A step with a hash has it as a sixth number. A torn line is skipped: its worker sends the batch again.
// Ownership: owns the descriptor. Thread: any one. Errors: reported once; a record that cannot be written waits in
// memory, up to kMaxWaitingBytes, and precedes the next one that can be written. Its sender does not keep it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "supervisor/protocol/result.h"
#include "supervisor/protocol/worker_messages.h"

namespace elastictrain {

class AuditFile {
 public:
  using Report = std::function<void(const std::string&)>;

  // Nothing is opened before the first record.
  AuditFile(std::string path, Report report) : path_(std::move(path)), report_(std::move(report)) {}
  ~AuditFile();
  AuditFile(const AuditFile&) = delete;
  AuditFile& operator=(const AuditFile&) = delete;

  void append(WorkerId worker, const protocol::WorkerAudit& audit);
  // A fresh run begins: records of an older run of the same name do not count.
  void clear();

  static constexpr std::size_t kMaxWaitingBytes = 64U << 20;
  std::size_t waiting() const { return waiting_.size(); }

 private:
  bool open();
  bool write_waiting();
  bool write(const std::string& bytes);

  std::string path_;
  Report report_;
  int descriptor_ = -1;
  bool torn_ = false;
  std::deque<std::string> waiting_;
  std::size_t waiting_bytes_ = 0;
  bool failing_ = false;
};

// audit.jsonl in the directory of the journal.
std::string audit_path_of(const std::string& journal_path);

using AuditRecords = std::vector<std::pair<WorkerId, protocol::WorkerAudit>>;

std::string audit_line(WorkerId worker, const protocol::WorkerAudit& audit);
// Lines that are not records are skipped.
AuditRecords parse_audits(std::string_view text);
// No file: no records.
Result<AuditRecords> read_audits(const std::string& path);

}  // namespace elastictrain
