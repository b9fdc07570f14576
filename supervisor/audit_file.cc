#include "supervisor/audit_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <utility>

#include "supervisor/protocol/json_text.h"

namespace elastictrain {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kPlainNumbers = 5;
constexpr std::size_t kHashedNumbers = 6;

std::optional<std::uint64_t> number_in(const Json& record, const char* name) {
  const auto found = record.find(name);
  if (found == record.end() || !found->is_number_unsigned()) return std::nullopt;
  return found->get<std::uint64_t>();
}

std::optional<WorkerId> worker_in(const Json& record, const char* name) {
  const auto number = number_in(record, name);
  if (!number || *number > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  return WorkerId{static_cast<std::uint32_t>(*number)};
}

std::optional<protocol::AuditStep> step_in(const Json& value) {
  if (!value.is_array() || (value.size() != kPlainNumbers && value.size() != kHashedNumbers)) return std::nullopt;
  for (const Json& number : value) {
    if (!number.is_number_unsigned()) return std::nullopt;
  }
  protocol::AuditStep step;
  step.generation = value[0].get<std::uint64_t>();
  step.step = value[1].get<std::uint64_t>();
  step.epoch = value[2].get<std::uint64_t>();
  step.first_position = value[3].get<std::uint64_t>();
  step.count = value[4].get<std::uint64_t>();
  step.hashed = value.size() == kHashedNumbers;
  if (step.hashed) step.state_hash = value[5].get<std::uint64_t>();
  return step;
}

void parse_line(std::string_view line, AuditRecords& records) {
  const Json json = parse_json(line);
  if (!json.is_object()) return;
  const auto worker = worker_in(json, "worker");
  const auto batch = number_in(json, "batch");
  const auto of = worker_in(json, "of");
  const auto steps = json.find("steps");
  if (!worker || !batch || !of || steps == json.end() || !steps->is_array()) return;
  protocol::WorkerAudit audit;
  audit.batch = *batch;
  audit.of = *of;
  audit.from_checkpoint = json.value("from_checkpoint", Json(false)) == Json(true);
  const Json anew = json.value("counted_anew", Json(0U));
  if (!anew.is_number_unsigned()) return;
  audit.counted_anew = anew.get<std::uint64_t>();
  for (const Json& value : *steps) {
    const auto step = step_in(value);
    if (!step) return;
    audit.steps.push_back(*step);
  }
  records.emplace_back(*worker, std::move(audit));
}

}  // namespace

std::string audit_path_of(const std::string& journal_path) {
  return (std::filesystem::path(journal_path).parent_path() / "audit.jsonl").string();
}

std::string audit_line(WorkerId worker, const protocol::WorkerAudit& audit) {
  std::string line =
      "{\"worker\":" + std::to_string(worker.value) + ",\"batch\":" + std::to_string(audit.batch) +
      ",\"of\":" + std::to_string(audit.of.value) + (audit.from_checkpoint ? ",\"from_checkpoint\":true" : "") +
      (audit.counted_anew != 0 ? ",\"counted_anew\":" + std::to_string(audit.counted_anew) : "") + ",\"steps\":[";
  for (std::size_t i = 0; i < audit.steps.size(); ++i) {
    const protocol::AuditStep& step = audit.steps[i];
    line += (i == 0 ? "[" : ",[") + std::to_string(step.generation) + "," + std::to_string(step.step) + "," +
            std::to_string(step.epoch) + "," + std::to_string(step.first_position) + "," + std::to_string(step.count);
    if (step.hashed) line += "," + std::to_string(step.state_hash);
    line += "]";
  }
  return line + "]}\n";
}

AuditRecords parse_audits(std::string_view text) {
  AuditRecords records;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end != 0) parse_line(text.substr(0, end), records);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return records;
}

Result<AuditRecords> read_audits(const std::string& path) {
  AuditRecords records;
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    if (!std::filesystem::exists(path)) return records;
    return Error{ErrorCode::kIo, "the audit records in " + path + " cannot be read"};
  }
  for (std::string line; std::getline(stream, line);) parse_line(line, records);
  if (stream.bad()) return Error{ErrorCode::kIo, "the audit records in " + path + " cannot be read to their end"};
  return records;
}

AuditFile::~AuditFile() {
  write_waiting();
  if (descriptor_ >= 0) ::close(descriptor_);
}

void AuditFile::clear() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
  waiting_.clear();
  waiting_bytes_ = 0;
  ::unlink(path_.c_str());
}

void AuditFile::append(WorkerId worker, const protocol::WorkerAudit& audit) {
  waiting_.push_back(audit_line(worker, audit));
  waiting_bytes_ += waiting_.back().size();
  if (write_waiting()) return;
  const std::string why = std::strerror(errno);
  for (; waiting_bytes_ > kMaxWaitingBytes; waiting_.pop_front()) waiting_bytes_ -= waiting_.front().size();
  if (std::exchange(failing_, true)) return;
  report_("the audit records in " + path_ + " cannot be written: " + why +
          "; until they can, a supervisor that takes this run over would miss some");
}

bool AuditFile::write_waiting() {
  for (; !waiting_.empty(); waiting_.pop_front()) {
    const std::string& line = waiting_.front();
    if (!open() || !write(torn_ ? "\n" + line : line)) return false;
    waiting_bytes_ -= line.size();
  }
  failing_ = false;
  return true;
}

bool AuditFile::open() {
  if (descriptor_ >= 0) return true;
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor_ < 0) return false;
  const off_t end = ::lseek(descriptor_, 0, SEEK_END);
  char last = '\n';
  torn_ = end > 0 && ::pread(descriptor_, &last, 1, end - 1) == 1 && last != '\n';
  return true;
}

bool AuditFile::write(const std::string& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = ::write(descriptor_, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      if (count == 0) errno = ENOSPC;
      return false;
    }
    done += static_cast<std::size_t>(count);
    torn_ = bytes[done - 1] != '\n';
  }
  return true;
}

}  // namespace elastictrain
