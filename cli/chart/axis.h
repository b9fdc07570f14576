// Purpose: the axis of a chart: which values it spans, whether it is logarithmic, and round values with their labels.
// Labels have as many digits as neighbours need to differ. Pure; no errors: values that are not finite are left out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace elastictrain::cli::chart {

enum class Quantity : std::uint8_t { kNumber, kWhole, kPercent, kSeconds };  // kPercent: of parts of 1

enum class Span : std::uint8_t {
  kExact,     // from the lowest to the highest value
  kFromZero,  // from 0, with some room above
  kWithRoom,  // the same as kExact, with some room at both ends
  // kWithRoom, but from 0 if the values differ by less than a factor of two, so that small differences look small.
  kHonest,
};

// kAuto: logarithmic if the highest value is more than ten times the lowest one, which is positive; not with kFromZero.
enum class Scale : std::uint8_t { kAuto, kLinear };

struct Tick {
  double value = 0;
  std::string label;
};

class Axis {
 public:
  Axis() = default;
  Axis(const std::vector<double>& values, Quantity quantity, Span span, Scale scale = Scale::kAuto);

  double position(double value) const;  // 0 to 1
  bool logarithmic() const { return logarithmic_; }
  // At round values, at most about `most`; at least two, if the axis spans anything.
  std::vector<Tick> ticks(int most) const;

 private:
  void add_room(bool below);
  std::vector<double> linear_ticks(int most) const;
  std::vector<double> logarithmic_ticks(int most) const;
  std::string label(double value, double step) const;

  Quantity quantity_ = Quantity::kNumber;
  bool logarithmic_ = false;
  double low_ = 0;
  double high_ = 1;
};

// "0", "200 ms", "30 s", "5m", "1h 30m", "2d": a round duration without the parts that are zero.
std::string short_duration(double seconds);

}  // namespace elastictrain::cli::chart
