#include "supervisor/core/audit.h"

#include "supervisor/core/text.h"

namespace elastictrain::core {
namespace {

std::string failure_in(const Ledger::Summary& audit) {
  std::string text;
  const auto add = [&](std::uint64_t count, const char* what, const char* how) {
    if (count > 0) text += (text.empty() ? "" : ", ") + counted(count, what) + how;
  };
  add(audit.missing, "sample", " counted in no step");
  add(audit.repeated, "sample", " counted more than once");
  add(audit.unequal_hashes, "time", " the parameters of two workers differed");
  return text;
}

}  // namespace

void Audit::record(WorkerId worker, const protocol::WorkerAudit& account) {
  report(worker, ledger_.record(worker, account));
}

void Audit::fence(const protocol::Fence& begun) {
  report({}, ledger_.fence(begun));
}

void Audit::report(WorkerId worker, const std::vector<std::string>& violations) {
  for (const std::string& violation : violations) {
    out_.journal(record::AuditViolation{worker, violation});
    out_.tell(Tell::Level::kError, "audit: " + violation);
  }
}

std::string Audit::summarize(const std::vector<WorkerId>& cut_off) {
  if (!ledger_.used()) return {};
  report({}, ledger_.end(cut_off));
  const Ledger::Summary audit = ledger_.summary();
  out_.journal(record::Audit{.steps = audit.steps,
                             .epochs = audit.epochs,
                             .samples = audit.samples,
                             .missing = audit.missing,
                             .unaccounted = audit.unaccounted,
                             .repeated = audit.repeated,
                             .hashes_compared = audit.hashes_compared,
                             .unequal_hashes = audit.unequal_hashes});
  const std::string failure = failure_in(audit);
  if (audit.unaccounted > 0) {
    out_.tell(Tell::Level::kInfo, "the audit is not complete: " + counted(audit.unaccounted, "sample") +
                                      " may have counted in last steps of which the workers could not tell any more");
  }
  if (!failure.empty()) out_.tell(Tell::Level::kError, "the audit failed: " + failure);
  return failure;
}

}  // namespace elastictrain::core
