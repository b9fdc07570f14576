#include "cli/metrics/exposition.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace elastictrain::cli::metrics {
namespace {

std::string value_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.15g", value);
  return text.data();
}

std::string escaped_label(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out;
}

std::string labels_text(const Labels& common, const Labels& own) {
  std::string text;
  for (const Labels* labels : {&common, &own}) {
    for (const auto& [name, value] : *labels) {
      text += (text.empty() ? "" : ",") + name + "=\"" + escaped_label(value) + "\"";
    }
  }
  return text.empty() ? "" : "{" + text + "}";
}

const char* kind_text(Kind kind) {
  switch (kind) {
    case Kind::kGauge:
      return "gauge";
    case Kind::kCounter:
      return "counter";
    case Kind::kHistogram:
      return "histogram";
  }
  return "untyped";
}

}  // namespace

const char* content_type(Format format) {
  return format == Format::kOpenMetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                        : "text/plain; version=0.0.4; charset=utf-8";
}

std::string exposition(const std::vector<Family>& families, const Labels& common, Format format) {
  std::string text;
  for (const Family& family : families) {
    if (family.samples.empty()) continue;
    const std::string total = family.kind == Kind::kCounter ? "_total" : "";
    // OpenMetrics names the family, the older format its samples.
    const std::string described = family.name + (format == Format::kText ? total : "");
    text += "# HELP " + described + " " + family.help + "\n# TYPE " + described + " " + kind_text(family.kind) + "\n";
    for (const Sample& sample : family.samples) {
      text += family.name + total + sample.suffix + labels_text(common, sample.labels) + " " +
              value_text(sample.value) + "\n";
    }
  }
  return format == Format::kOpenMetrics ? text + "# EOF\n" : text;
}

void Histogram::add(double value, std::uint64_t times) {
  if (!std::isfinite(value)) return;
  const auto limit = std::lower_bound(limits_.begin(), limits_.end(), value);
  counts_[static_cast<std::size_t>(limit - limits_.begin())] += times;
  sum_ += value * static_cast<double>(times);
}

std::vector<Sample> Histogram::samples() const {
  std::vector<Sample> samples;
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    below += counts_[i];
    const std::string limit = i < limits_.size() ? value_text(limits_[i]) : "+Inf";
    samples.push_back({"_bucket", {{"le", limit}}, static_cast<double>(below)});
  }
  samples.push_back({"_sum", {}, sum_});
  samples.push_back({"_count", {}, static_cast<double>(below)});
  return samples;
}

}  // namespace elastictrain::cli::metrics
