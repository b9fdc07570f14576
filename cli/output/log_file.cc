#include "cli/output/log_file.h"

#include <spdlog/sinks/rotating_file_sink.h>
#include <sys/stat.h>

#include <cstdio>
#include <limits>

namespace elastictrain::cli {
namespace {

constexpr const char* kPlainPattern = "%v";
constexpr const char* kDatedPattern = "%Y-%m-%dT%H:%M:%S.%e %l %v";

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  panic("log level without a name");
}

spdlog::file_event_handlers handlers_for(const LogFile::Limits& limits) {
  spdlog::file_event_handlers handlers;
  if (!limits.owner_only) return handlers;
  handlers.after_open = [](const spdlog::filename_t&, std::FILE* file) { ::fchmod(fileno(file), 0600); };
  return handlers;
}

}  // namespace

struct LogFile::Sink {
  Sink(const std::string& path, const Limits& limits)
      : file(path, limits.max_bytes == 0 ? std::numeric_limits<std::size_t>::max() : limits.max_bytes, limits.keep,
             false, handlers_for(limits)) {
    file.set_pattern(limits.form == Form::kPlain ? kPlainPattern : kDatedPattern);
  }

  spdlog::sinks::rotating_file_sink_st file;
};

LogFile::LogFile(std::unique_ptr<Sink> sink) : sink_(std::move(sink)) {}
LogFile::~LogFile() = default;
LogFile::LogFile(LogFile&& other) noexcept = default;
LogFile& LogFile::operator=(LogFile&& other) noexcept = default;

Result<LogFile> LogFile::open(const std::string& path, Limits limits) {
  try {
    return LogFile(std::make_unique<Sink>(path, limits));
  } catch (const spdlog::spdlog_ex& error) {
    return Error{ErrorCode::kIo, error.what()};
  }
}

Status LogFile::append(std::string_view line, LogLevel level) {
  try {
    sink_->file.log({spdlog::source_loc(), "", level_of(level), spdlog::string_view_t(line.data(), line.size())});
    sink_->file.flush();
    return {};
  } catch (const spdlog::spdlog_ex& error) {
    return Error{ErrorCode::kIo, error.what()};
  }
}

}  // namespace elastictrain::cli
