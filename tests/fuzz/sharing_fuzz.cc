// A line from a sharing policy of the user: a decision that can be carried out, or a problem that says why not.
#include <cstdint>
#include <string>

#include "supervisor/policy/sharing_json.h"
#include "tests/fuzz/check.h"

namespace {

using namespace elastictrain;
namespace sharing = heuristics::sharing;

// Three jobs of which the first two may share their slots; the first holds three.
sharing::View view_of(const sharing::Curve& curve) {
  sharing::View view;
  view.now_s = 10;
  view.slots = 4;
  for (const std::uint64_t id : {1, 2, 3}) {
    sharing::JobView& job = view.jobs.emplace_back();
    job.id = id;
    job.curve = &curve;
    job.packs = id < 3;
    job.held = id == 1 ? 3 : 0;
  }
  return view;
}

void look(const sharing::Decision& decision, const sharing::View& view) {
  double sum = 0;
  for (std::size_t place = 0; place < view.jobs.size(); ++place) {
    const sharing::Grant& grant = decision.grants[place];
    fuzz::check(grant.slots >= 0 && grant.slots <= view.slots, "a job gets what there is not");
    if (grant.beside == sharing::kNoJob) {
      sum += grant.slots;
      continue;
    }
    const std::uint64_t host = grant.beside - 1;
    fuzz::check(host < 2 && host != place && place < 2, "a job shares slots that it cannot");
    fuzz::check(decision.grants[host].slots == grant.slots, "a guest has other slots than its host");
    fuzz::check(decision.grants[host].beside == sharing::kNoJob, "the host of a guest is a guest");
  }
  fuzz::check(sum <= view.slots, "more slots are given than there are");
  fuzz::check(decision.again_s > view.now_s, "the next decision is in the past");
  for (const std::string& reason : decision.reasons) {
    fuzz::check(reason.find('\n') == std::string::npos && reason.size() < 1100, "a reason is not one line");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const sharing::Curve curve({{1, 1}, {4, 3}});
  const sharing::View view = view_of(curve);
  const auto decision = policy::sharing_decision({reinterpret_cast<const char*>(data), size}, view);
  if (decision.problem.empty()) look(decision, view);
  return 0;
}
