#include "supervisor/core/training.h"

#include "supervisor/protocol/check.h"

#include <utility>

namespace elastictrain::core {
namespace {

// A plan carries the newest ones: a checkpoint older than all of these has been deleted long since.
constexpr std::size_t kMaxLineage = 256;

}  // namespace

void Training::set_members(std::vector<WorkerId> next) {
  members = std::move(next);
  member_set = {members.begin(), members.end()};
  ET_CHECK(member_set.size() == members.size(), "a worker has one rank in a generation");
}

bool Training::remember(Generation number, Step first_step) {
  if (first_step == 0 || (!lineage.empty() && lineage.back().generation >= number)) return false;
  lineage.push_back({number, first_step});
  ET_CHECK(number <= issued, "a generation that began was issued before");
  if (lineage.size() > kMaxLineage) lineage.erase(lineage.begin());
  return true;
}

}  // namespace elastictrain::core
