#include "cli/metrics/exporter.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "cli/output/whole_file.h"

namespace elastictrain::cli::metrics {
namespace {

constexpr std::chrono::seconds kLastWrite{2};  // for a write that is in progress when the run ends

}  // namespace

struct Exporter::Writing {
  std::mutex mutex;
  std::condition_variable ended;
  bool is_busy = false;
  std::string problem;
};

Exporter::Exporter(asio::io_context& io, const MetricsConfig& config, RunMetrics& metrics, Say say, Say warn)
    : config_(config), metrics_(metrics), warn_(std::move(warn)), timer_(io), writing_(std::make_shared<Writing>()) {
  if (!config_.listen.empty()) {
    const auto address = parse_listen(config_.listen);
    auto server = address.ok() ? HttpServer::open(io, *address, [this](Format format) { return metrics_.text(format); })
                               : Result<std::unique_ptr<HttpServer>>(address.error());
    if (server.ok()) {
      server_ = std::move(*server);
      say("metrics: " + server_->url());
    } else {
      warn_("the metrics are not served: " + server.error().message);
    }
  }
  if (!config_.file.empty()) write_file();
}

Exporter::~Exporter() {
  if (!config_.file.empty()) remove_file();
}

void Exporter::write_later() {
  timer_.expires_after(std::chrono::milliseconds(config_.interval_ms));
  timer_.async_wait([this](asio::error_code error) {
    if (!error) write_file();
  });
}

void Exporter::write_file() {
  write_later();
  std::string problem;
  {
    const std::lock_guard lock(writing_->mutex);
    if (writing_->is_busy) return;
    writing_->is_busy = true;
    problem = std::exchange(writing_->problem, "");
  }
  if (!problem.empty() && !std::exchange(has_warned_, true)) {
    warn_("metrics.file " + config_.file + " cannot be written: " + problem);
  }
  std::thread([writing = writing_, path = config_.file, text = metrics_.text(Format::kText)] {
    const std::error_code failed = write_whole_file(path, text);
    const std::lock_guard lock(writing->mutex);
    writing->problem = failed ? failed.message() : "";
    writing->is_busy = false;
    writing->ended.notify_all();
  }).detach();
}

// A run that has ended has no metrics: node_exporter would show the last ones for ever.
void Exporter::remove_file() {
  std::unique_lock lock(writing_->mutex);
  if (!writing_->ended.wait_for(lock, kLastWrite, [this] { return !writing_->is_busy; })) return;
  remove_whole_file(config_.file);
}

}  // namespace elastictrain::cli::metrics
