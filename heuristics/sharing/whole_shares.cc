#include "heuristics/sharing/whole_shares.h"

#include <algorithm>
#include <cmath>

namespace elastictrain::heuristics::sharing {
namespace {

class Fitting {
 public:
  Fitting(const std::vector<Grant>& grants, const std::vector<Bounds>& bounds, std::vector<UserLimits> users,
          std::uint32_t slots)
      : bounds_(bounds), users_(std::move(users)), free_(slots), shares_(bounds.size()) {
    double sum = 0;
    for (const Grant& grant : grants) {
      is_guest_.push_back(grant.beside != kNoJob);
      granted_.push_back(is_guest_.back() ? 0 : static_cast<std::uint32_t>(std::floor(grant.slots + 1e-9)));
      sum += granted_.back();
    }
    const auto granted = static_cast<std::uint32_t>(std::min<double>(sum, slots));
    unused_ = slots - granted;
  }

  std::vector<std::uint32_t> fit() {
    begin([this](std::size_t job) { return bounds_[job].keeps; });
    begin([this](std::size_t job) { return granted_[job] > 0; });
    fill([this](std::size_t job) { return std::min(granted_[job], bounds_[job].most); });
    // What the policy gave to jobs that cannot have it.
    if (free_ > unused_) begin([](std::size_t) { return true; });
    if (free_ > unused_) fill([this](std::size_t job) { return bounds_[job].most; }, unused_);
    return std::move(shares_);
  }

 private:
  bool allowed(std::size_t job, std::uint32_t slots) const {
    const UserLimits& user = users_[bounds_[job].user];
    return slots <= user.slots && (shares_[job] > 0 || user.running > 0);
  }

  bool take(std::size_t job, std::uint32_t slots) {
    UserLimits& user = users_[bounds_[job].user];
    const bool starts = shares_[job] == 0;
    if (slots > free_ || !allowed(job, slots)) return false;
    free_ -= slots;
    if (user.slots != kNoLimitOfSlots) user.slots -= slots;
    if (starts && user.running != kNoLimitOfSlots) --user.running;
    shares_[job] += slots;
    return true;
  }

  template <class Choose>
  void begin(Choose choose) {
    bool blocked = false;  // an earlier job waits for its least
    for (std::size_t job = 0; job < bounds_.size(); ++job) {
      const std::uint32_t least = bounds_[job].least;
      if (is_guest_[job] || shares_[job] > 0 || !choose(job) || !allowed(job, least)) continue;
      if (!blocked || bounds_[job].runs) blocked = !take(job, least) || blocked;
    }
  }

  // One slot each in turn to the jobs that have begun and are below their target.
  template <class Target>
  void fill(Target target, std::uint32_t leave = 0) {
    for (bool more = true; more && free_ > leave;) {
      more = false;
      for (std::size_t job = 0; job < bounds_.size() && free_ > leave; ++job) {
        if (shares_[job] > 0 && shares_[job] < target(job) && take(job, 1)) more = true;
      }
    }
  }

  const std::vector<Bounds>& bounds_;
  std::vector<UserLimits> users_;
  std::uint32_t free_;
  std::uint32_t unused_ = 0;  // that the policy left
  std::vector<bool> is_guest_;
  std::vector<std::uint32_t> granted_;
  std::vector<std::uint32_t> shares_;
};

}  // namespace

std::vector<std::uint32_t> whole_shares(const std::vector<Grant>& grants, const std::vector<Bounds>& bounds,
                                        std::vector<UserLimits> users, std::uint32_t slots) {
  return Fitting(grants, bounds, std::move(users), slots).fit();
}

}  // namespace elastictrain::heuristics::sharing
