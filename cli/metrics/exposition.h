// Purpose: metrics as Prometheus reads them: the text format 0.0.4 and OpenMetrics 1.0. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace elastictrain::cli::metrics {

using Labels = std::vector<std::pair<std::string, std::string>>;

struct Sample {
  std::string suffix;  // "_bucket", "_sum", "_count" of a histogram
  Labels labels;
  double value = 0;
};

enum class Kind : std::uint8_t { kGauge, kCounter, kHistogram };

// A counter's name is without "_total", which its samples get.
struct Family {
  std::string name;
  Kind kind = Kind::kGauge;
  std::string help;
  std::vector<Sample> samples = {};
};

// kText: what node_exporter's text files hold, too.
enum class Format : std::uint8_t { kText, kOpenMetrics };

const char* content_type(Format format);
// `common`: labels that every sample has. A family without samples is left out.
std::string exposition(const std::vector<Family>& families, const Labels& common, Format format);

// Counts of values by their size, with fixed limits.
class Histogram {
 public:
  explicit Histogram(std::vector<double> limits) : limits_(std::move(limits)), counts_(limits_.size() + 1) {}

  void add(double value, std::uint64_t times = 1);
  std::vector<Sample> samples() const;

 private:
  std::vector<double> limits_;  // rising
  std::vector<std::uint64_t> counts_;
  double sum_ = 0;
};

}  // namespace elastictrain::cli::metrics
