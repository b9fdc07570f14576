#include "heuristics/sharing/answer.h"

#include <algorithm>
#include <unordered_map>

#include "heuristics/sharing/fill.h"

namespace elastictrain::heuristics::sharing {
namespace {

std::string named(std::uint64_t id) {
  return "job " + std::to_string(id);
}

class Fitting {
 public:
  explicit Fitting(const View& view) : view_(view), is_named_(view.jobs.size()), left_(view.slots) {
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
  return Fitting(view).fit(answer);
}

}  // namespace elastictrain::heuristics::sharing
