// Purpose: reports of refused connections, limited so that a flood of them fills neither the terminal nor the journal:
// the first ones of each period individually, the rest as a number. Pure; the owner calls end_period().
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace elastictrain {

class Rejections {
 public:
  // `times` is 1 with an address, or the number of connections that were not reported individually.
  using Report = std::function<void(const std::string& address, const std::string& reason, std::uint64_t times)>;

  explicit Rejections(Report report) : report_(std::move(report)) {}

  void add(const std::string& address, const std::string& reason) {
    if (++in_period_ <= kReportedSingly) report_(address, reason, 1);
    last_address_ = address;
    last_reason_ = reason;
  }

  void end_period() {
    if (in_period_ > kReportedSingly) report_(last_address_, last_reason_, in_period_ - kReportedSingly);
    in_period_ = 0;
  }

 private:
  static constexpr std::uint64_t kReportedSingly = 5;  // in each period
  Report report_;
  std::uint64_t in_period_ = 0;
  std::string last_address_;
  std::string last_reason_;
};

}  // namespace elastictrain
