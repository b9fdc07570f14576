#include "supervisor/core/audit.h"

namespace elastictrain::core {

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

void Audit::summarize() {
  if (!ledger_.used()) return;
  const Ledger::Summary audit = ledger_.summary();
  out_.journal(record::Audit{.steps = audit.steps,
                             .epochs = audit.epochs,
                             .samples = audit.samples,
                             .missing = audit.missing,
                             .repeated = audit.repeated,
                             .hashes_compared = audit.hashes_compared,
                             .unequal_hashes = audit.unequal_hashes});
  if (audit.missing == 0) return;
  out_.tell(Tell::Level::kError, "audit: " + std::to_string(audit.missing) + " samples counted in no step");
}

}  // namespace elastictrain::core
