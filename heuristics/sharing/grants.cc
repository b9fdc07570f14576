#include "heuristics/sharing/grants.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "heuristics/sharing/fill.h"

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

namespace {

std::string named(std::uint64_t id) {
  return "job " + std::to_string(id);
}

class AnswerFitting {
 public:
  explicit AnswerFitting(const View& view) : view_(view), is_named_(view.jobs.size()), left_(view.slots) {
    decision_.grants.resize(view.jobs.size());
    decision_.reasons.resize(view.jobs.size());
    for (std::size_t place = 0; place < view.jobs.size(); ++place) place_of_.emplace(view.jobs[place].id, place);
    for (Grant& grant : decision_.grants) grant.why = Why::kSaid;
  }

  Decision fit(const Answer& answer) {
    for (const Answer::Job& job : answer.jobs) take(job);
    keep_others();
    for (std::size_t place = 0; place < view_.jobs.size(); ++place) check_guest(place);
    if (answer.again_s) again(*answer.again_s);
    return std::move(decision_);
  }

 private:
  // The first one counts.
  void complain(const std::string& what) {
    if (decision_.problem.empty()) decision_.problem = what;
  }

  void take(const Answer::Job& job) {
    const auto found = place_of_.find(job.id);
    if (found == place_of_.end()) return complain("there is no " + named(job.id) + " in the view");
    const std::size_t place = found->second;
    if (is_named_[place]) return complain(named(job.id) + " is there twice");
    is_named_[place] = true;
    decision_.reasons[place] = job.reason;
    const std::uint32_t wanted = job.slots.value_or(static_cast<std::uint32_t>(view_.jobs[place].held));
    if (wanted > view_.slots && job.slots) {
      return complain(named(job.id) + " is given " + std::to_string(wanted) + " slots, and there are " +
                      std::to_string(view_.slots));
    }
    give(place, std::min(wanted, most_slots(view_, view_.jobs[place])), job.beside.value_or(kNoJob));
  }

  void give(std::size_t place, std::uint32_t slots, std::uint64_t beside) {
    decision_.grants[place].slots = slots;
    decision_.grants[place].beside = beside;
    if (beside != kNoJob) return;
    if (slots > left_)
      return complain("more slots are given than the " + std::to_string(view_.slots) + " that there are");
    left_ -= slots;
  }

  void keep_others() {
    for (std::size_t place = 0; place < view_.jobs.size(); ++place) {
      if (is_named_[place]) continue;
      const JobView& job = view_.jobs[place];
      const auto held = static_cast<std::uint32_t>(job.held);
      give(place, job.beside == kNoJob ? std::min(held, left_) : held, job.beside);
    }
  }

  void check_guest(std::size_t place) {
    Grant& guest = decision_.grants[place];
    if (guest.beside == kNoJob) return;
    const std::uint64_t id = view_.jobs[place].id;
    const auto found = place_of_.find(guest.beside);
    const bool fits = found != place_of_.end() && found->second != place && guest.slots > 0 &&
                      decision_.grants[found->second].beside == kNoJob &&
                      decision_.grants[found->second].slots == guest.slots && hosts_.emplace(guest.beside, id).second;
    const bool may = view_.jobs[place].packs && fits && view_.jobs[found->second].packs;
    if (may) return;
    if (is_named_[place]) {
      complain(named(id) + (fits ? " may not share slots with " : " cannot share the slots of ") + named(guest.beside));
    }
    guest.slots = 0;
    guest.beside = kNoJob;
  }

  void again(double again_s) {
    if (!(again_s > view_.now_s)) complain("again_s must be later than now_s");
    decision_.again_s = std::max(again_s, view_.now_s + kSoonestAgain_s);
  }

  const View& view_;
  std::unordered_map<std::uint64_t, std::size_t> place_of_;
  std::unordered_map<std::uint64_t, std::uint64_t> hosts_;  // to their guests
  std::vector<bool> is_named_;
  std::uint32_t left_;
  Decision decision_;
};

}  // namespace

Decision decision_of(const Answer& answer, const View& view) {
  return AnswerFitting(view).fit(answer);
}

}  // namespace elastictrain::heuristics::sharing
