// Purpose: in audit mode, what the workers reported, kept beside the journal so that the ledger survives a restart of
// the supervisor. Append-only, one batch a line; a record is written before the ledger takes it:
//   {"worker":1,"batch":3,"of":0,"steps":[[generation,step,epoch,first position,count],…]}
// A step with a hash has it as a sixth number. A torn line is passed over: its worker sends the batch again.
// Ownership: owns the descriptor. Thread: any one. Failure: a record that cannot be written is counted and reported
// once; the ledger of this supervisor still has it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "supervisor/protocol/message.h"
#include "supervisor/protocol/result.h"

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
  // A fresh run begins: what an older one of the same name left does not count.
  void clear();

  std::uint64_t lost() const { return lost_; }

 private:
  bool open();
  bool write(const std::string& bytes);

  std::string path_;
  Report report_;
  int descriptor_ = -1;
  bool torn_ = false;
  std::uint64_t lost_ = 0;
};

// audit.jsonl in the directory of the journal.
std::string audit_path_of(const std::string& journal_path);

using AuditRecords = std::vector<std::pair<WorkerId, protocol::WorkerAudit>>;

std::string audit_line(WorkerId worker, const protocol::WorkerAudit& audit);
// Lines that are no records are passed over.
AuditRecords parse_audits(std::string_view text);
// No file: no records.
Result<AuditRecords> read_audits(const std::string& path);

}  // namespace elastictrain
