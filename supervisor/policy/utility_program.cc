#include "supervisor/policy/utility_program.h"

#include <utility>

#include "heuristics/cost/utility.h"
#include "supervisor/policy/view_json.h"
#include "supervisor/protocol/json_text.h"

namespace elastictrain::policy {
namespace {

bool is_pair(const nlohmann::json& point) {
  return point.is_array() && point.size() == 2 && point[0].is_number() && point[1].is_number();
}

}  // namespace

Result<UtilityTable> read_utility(std::string_view text) {
  const auto wrong = [](const std::string& what) { return Error{ErrorCode::kInvalid, what}; };
  const nlohmann::json answer = parse_json(text);
  if (!answer.is_object() || !answer.contains("utility") || !answer["utility"].is_array()) {
    return wrong("it must be {\"utility\": [[SECONDS, VALUE], ...]}");
  }
  const auto& points = answer["utility"];
  if (points.size() > kMaxUtilityPoints) {
    return wrong("it has " + std::to_string(points.size()) + " points; at most " + std::to_string(kMaxUtilityPoints) +
                 " are allowed");
  }
  std::vector<std::pair<double, double>> pairs;
  for (const auto& point : points) {
    if (!is_pair(point)) return wrong("point " + std::to_string(pairs.size() + 1) + " must be [SECONDS, VALUE]");
    pairs.emplace_back(point[0].get<double>(), point[1].get<double>());
  }
  if (auto problem = heuristics::problem_of_table(pairs); !problem.empty()) return wrong(problem);
  UtilityTable table;
  for (const auto& [seconds, value] : pairs) table.push_back({seconds, value});
  return table;
}

Result<std::unique_ptr<UtilityProgram>> UtilityProgram::start(asio::io_context& io, const Outside& outside,
                                                              std::function<void(const std::string& line)> on_line) {
  std::unique_ptr<UtilityProgram> made(new UtilityProgram);
  const auto answered = [self = made.get()](const std::string& line) -> Status {
    auto table = read_utility(line);
    if (!table.ok()) return table.error();
    self->table_ = std::move(*table);
    self->has_answer_ = true;
    return {};
  };
  const auto failed = [self = made.get()](const std::string& why) {
    self->table_.clear();
    self->failure_ = "the program of policy.utility_program " + why;
  };
  auto program = Program::start(io, outside, {answered, failed, std::move(on_line)});
  if (!program.ok()) return program.error();
  made->program_ = std::move(*program);
  return made;
}

bool UtilityProgram::is_settled(const std::function<heuristics::ClusterView()>& state) {
  if (program_->has_failed() || std::exchange(has_answer_, false)) return true;
  if (program_->is_ready()) program_->ask(to_json(state()));
  return false;
}

void UtilityProgram::close() {
  program_->close();
}

}  // namespace elastictrain::policy
