#include "supervisor/core/pure/host_health.h"

#include <algorithm>

#include "supervisor/core/pure/text.h"
#include "supervisor/protocol/duration_text.h"

namespace elastictrain::core {

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
