#include "cli/commands/sweep_report_file.h"

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "supervisor/protocol/json_text.h"

namespace elastictrain::cli {
namespace {

void take_line(const nlohmann::json& line, std::map<std::string, KnownReports>& all) {
  KnownReports& known = all[line.at("trial").get<std::string>()];
  known.values.resize(std::min(known.values.size(), line.at("first").get<std::size_t>()));
  for (const auto& value : line.at("values")) {
    known.values.push_back(value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>());
  }
  known.place = {line.at("offset").get<std::uint64_t>(), line.at("line_bytes").get<std::uint64_t>(),
                 line.at("line_hash").get<std::uint64_t>()};
}

}  // namespace

std::map<std::string, KnownReports> SweepReportFile::read() const {
  std::map<std::string, KnownReports> all;
  std::ifstream file(path_);
  for (std::string text; std::getline(file, text);) {
    const nlohmann::json line = parse_json(text);
    try {
      if (line.is_object()) take_line(line, all);
    } catch (const nlohmann::json::exception&) {
      continue;
    }
  }
  return all;
}

Status SweepReportFile::add(const std::string& trial, std::size_t first, const KnownReports& known) const {
  nlohmann::json values = nlohmann::json::array();
  for (std::size_t i = first; i < known.values.size(); ++i) {
    values.push_back(std::isnan(known.values[i]) ? nlohmann::json() : nlohmann::json(known.values[i]));
  }
  const nlohmann::json line = {{"trial", trial},
                               {"first", first},
                               {"values", std::move(values)},
                               {"offset", known.place.offset},
                               {"line_bytes", known.place.line_bytes},
                               {"line_hash", known.place.line_hash}};
  std::ofstream file(path_, std::ios::app);
  file << json_text(line) + "\n" << std::flush;
  if (file) return {};
  return Error{ErrorCode::kIo, "cannot write " + path_ + ": " + std::strerror(errno)};
}

}  // namespace elastictrain::cli
