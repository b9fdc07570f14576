#include "launcher/agent/questions.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "launcher/agent/ras_client.h"
#include "launcher/agent/stack_capture.h"
#include "launcher/process/process_stat.h"

namespace elastictrain::launcher {
namespace {

struct Asked {
  asio::io_context& io;
  const Workers& workers;
  WorkerId worker;
  std::chrono::milliseconds limit;
  std::function<void(std::vector<std::string> lines)> done;
};

void answer_stacks(const Asked& asked) {
  const auto place = asked.workers.find(asked.worker);
  if (place == asked.workers.end()) return asked.done({"its process has ended"});
  StackCapture::start(asked.io, place->second->training_pid(), asked.limit, asked.done);
}

// A stopped worker cannot answer; the doubtful worker's own service runs in a separate thread and comes last.
std::vector<std::uint16_t> ras_ports(const Workers& workers, WorkerId doubtful) {
  constexpr std::size_t kMaxAsked = 4;
  std::vector<std::uint16_t> ports;
  const auto add = [&](const Worker& worker) {
    const auto stat = read_process_stat(worker.training_pid());
    if (worker.ras_port() != 0 && stat && !stat->stopped()) ports.push_back(worker.ras_port());
  };
  for (const auto& [id, worker] : workers) {
    if (id != doubtful && ports.size() < kMaxAsked) add(*worker);
  }
  if (const auto place = workers.find(doubtful); place != workers.end()) add(*place->second);
  return ports;
}

void answer_collectives(const Asked& asked) {
  RasClient::start(asked.io, ras_ports(asked.workers, asked.worker), asked.limit,
                   [done = asked.done, limit = asked.limit](const RasAnswer& answer) {
                     auto lines = explain_ras_answer(answer, limit);
                     if (!lines.empty()) done(std::move(lines));
                   });
}

// In the order of the enumerators.
constexpr std::array kAnswers{answer_stacks, answer_collectives};
static_assert(kAnswers.size() == protocol::kQuestionNames.size());

}  // namespace

void answer_question(asio::io_context& io, const protocol::AskAgent& asked, const Workers& workers,
                     std::function<void(std::vector<std::string> lines)> done) {
  const std::chrono::milliseconds limit(asked.time_limit_ms);
  kAnswers[static_cast<std::size_t>(asked.question)]({io, workers, asked.worker, limit, std::move(done)});
}

}  // namespace elastictrain::launcher
