#include "supervisor/core/pure/failure_budget.h"

#include <algorithm>
#include <utility>

#include "supervisor/core/pure/message_text.h"
#include "supervisor/protocol/display_text.h"

namespace elastictrain::core {

const char* class_name(FailureClass failure) {
  switch (failure) {
    case FailureClass::kCrash:
      return "crash";
    case FailureClass::kHang:
      return "hang";
    case FailureClass::kPreemption:
      return "preemption";
    case FailureClass::kInfrastructure:
      return "infrastructure";
  }
  return "loss";
}

std::uint32_t FailureBudget::limit(FailureClass failure) const {
  switch (failure) {
    case FailureClass::kCrash:
      return settings_.max_crashes;
    case FailureClass::kHang:
      return settings_.max_hangs;
    case FailureClass::kInfrastructure:
      return settings_.max_infrastructure;
    case FailureClass::kPreemption:
      break;
  }
  return kUnlimited;
}

std::optional<BudgetEnd> FailureBudget::charge(const Loss& loss, Instant now) {
  const auto index = static_cast<std::size_t>(loss.what);
  auto& losses = losses_[index];
  ++totals_[index];
  losses.push_back(now);
  while (losses.size() > kMaxKept || losses.front() + settings_.window < now) losses.pop_front();
  if (loss.what == FailureClass::kCrash) {
    last_crash_ = loss;
    crash_is_new_ = true;
  }
  const std::uint32_t max = limit(loss.what);
  if (max == kUnlimited || losses.size() <= max) return std::nullopt;
  return over_limit(loss, losses.size(), max);
}

BudgetEnd FailureBudget::over_limit(const Loss& loss, std::size_t count, std::uint32_t limit) const {
  const std::string what = loss.text + loss.detail;
  const std::string allowed = "\nThat is loss " + std::to_string(count) + " of the class " + class_name(loss.what) +
                              window_text() + ", and " + std::to_string(limit) + (limit == 1 ? " is" : " are") +
                              " allowed (failures.max_";
  switch (loss.what) {
    case FailureClass::kCrash:
      return {loss.status, limit == 0 ? what : what + allowed + "crashes)."};
    case FailureClass::kHang:
      return {kStatusFruitless, what + allowed + "hangs). Where it was stuck is in the journal."};
    case FailureClass::kInfrastructure:
    case FailureClass::kPreemption:
      break;
  }
  return {kStatusUnavailable, what + allowed + "infrastructure). Check the hosts and their network."};
}

std::string FailureBudget::window_text() const {
  return " within " + protocol::duration_text(std::chrono::duration_cast<Millis>(settings_.window));
}

std::optional<BudgetEnd> FailureBudget::recovers(bool progress, Step step, const std::string& cause) {
  const bool crash_is_old = !std::exchange(crash_is_new_, false);
  if (progress) {
    fruitless_ = 0;
    if (crash_is_old) last_crash_.reset();
    return std::nullopt;
  }
  if (++fruitless_ <= settings_.max_fruitless) return std::nullopt;
  const std::string reason = std::to_string(fruitless_) + (fruitless_ == 1 ? " recovery" : " recoveries in a row") +
                             " came no further than step " + std::to_string(step) +
                             " (failures.max_fruitless = " + std::to_string(settings_.max_fruitless) +
                             "), the last one after: " + cause;
  if (!last_crash_) return BudgetEnd{kStatusFruitless, reason + ". Starting the run again as it is will not help."};
  return BudgetEnd{last_crash_->status, reason + last_crash_->detail};
}

std::size_t FailureBudget::count(FailureClass failure, Instant now) const {
  const auto& losses = losses_[static_cast<std::size_t>(failure)];
  return static_cast<std::size_t>(
      std::count_if(losses.begin(), losses.end(), [&](Instant when) { return when + settings_.window >= now; }));
}

Millis HostHealth::cool_down(std::uint32_t failures) const {
  if (failures < 2) return Millis{0};
  Millis time = settings_.cool_down;
  for (std::uint32_t i = 2; i < failures && time < settings_.cool_down_max; ++i) time *= 2;
  return std::min(time, settings_.cool_down_max);
}

bool HostHealth::verified(const Record& record, Instant now) const {
  return record.trains_since && now - *record.trains_since >= std::max(cool_down(record.failures), settings_.cool_down);
}

std::optional<Instant> HostHealth::failed(const std::string& host, const std::string& reason, Instant now) {
  Record& record = records_[host];
  if (verified(record, now)) record = Record{};
  if (record.failures > 0 && record.last == now) return cooled_until(host, now);
  ++record.failures;
  record.last = now;
  record.reason = reason;
  record.until = now + cool_down(record.failures);
  record.trains_since.reset();
  return cooled_until(host, now);
}

void HostHealth::trains(const std::string& host, Instant now) {
  const auto found = records_.find(host);
  if (found == records_.end()) return;
  if (verified(found->second, now)) {
    records_.erase(found);
  } else if (!found->second.trains_since) {
    found->second.trains_since = now;
  }
}

void HostHealth::rests(const std::string& host) {
  const auto found = records_.find(host);
  if (found != records_.end()) found->second.trains_since.reset();
}

std::optional<Instant> HostHealth::cooled_until(const std::string& host, Instant now) const {
  const auto found = records_.find(host);
  if (found == records_.end() || found->second.until <= now || verified(found->second, now)) return std::nullopt;
  return found->second.until;
}

bool HostHealth::usable(const std::string& host, Instant now) const {
  return !cooled_until(host, now).has_value();
}

std::uint32_t HostHealth::failures(const std::string& host, Instant now) const {
  const auto found = records_.find(host);
  return found == records_.end() || verified(found->second, now) ? 0 : found->second.failures;
}

std::vector<HostHealth::Cooled> HostHealth::cooled(Instant now) const {
  std::vector<Cooled> list;
  for (const auto& [host, record] : records_) {
    if (cooled_until(host, now)) list.push_back({host, record.failures, record.until, record.reason});
  }
  return list;
}

std::string HostHealth::text(const std::string& host, Instant now) const {
  const auto until = cooled_until(host, now);
  if (!until) return "";
  const Record& record = records_.at(host);
  const auto left = std::chrono::ceil<std::chrono::seconds>(*until - now);
  return "host " + host + " failed " + counted(record.failures, "time") + " in a row (" + record.reason +
         ") and is not used for " + protocol::duration_text(left);
}

}  // namespace elastictrain::core
