#include "launcher/agent/accelerator_probe.h"

#include <memory>
#include <utility>

#include "launcher/process/command.h"
#include "supervisor/protocol/codec.h"
#include "supervisor/protocol/display_text.h"

namespace elastictrain::launcher {
namespace {

using protocol::AcceleratorFacts;

constexpr std::string_view kMark = "elastictrain-accelerators ";

std::string to_hex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += {kDigits[byte / 16], kDigits[byte % 16]};
  }
  return text;
}

std::optional<std::string> from_hex(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string bytes;
  if (text.size() % 2 != 0) return std::nullopt;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const auto high = kDigits.find(text[i]);
    const auto low = kDigits.find(text[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
    bytes += static_cast<char>(high * 16 + low);
  }
  return bytes;
}

std::string why_nothing(const CommandEnd& end, std::chrono::milliseconds time_limit) {
  if (end.timed_out) {
    return "looking for GPUs took longer than " + protocol::duration_text(time_limit);
  }
  const std::string summary = last_line(end.error_text);
  return "the process that looks for GPUs ended with " + describe(end.status) + (summary.empty() ? "" : ": " + summary);
}

}  // namespace

std::string accelerator_line(const AcceleratorFacts& facts) {
  const std::string frame = protocol::encode_frame(protocol::AgentUp(facts));
  return std::string(kMark) + to_hex(std::string_view(frame).substr(protocol::kFrameHeaderBytes));
}

std::optional<AcceleratorFacts> parse_accelerator_line(std::string_view line) {
  if (!line.starts_with(kMark)) return std::nullopt;
  const auto body = from_hex(line.substr(kMark.size()));
  if (!body) return std::nullopt;
  auto message = protocol::decode_body<protocol::AgentUp>(*body);
  if (!message.ok() || !std::holds_alternative<AcceleratorFacts>(*message)) return std::nullopt;
  return std::get<AcceleratorFacts>(std::move(*message));
}

void probe_accelerators(asio::io_context& io, const std::string& binary, std::vector<std::string> environment,
                        std::chrono::milliseconds time_limit, std::function<void(AcceleratorFacts)> done) {
  CommandSpec spec;
  spec.argv = {binary, kAcceleratorsCommand};
  spec.environment = std::move(environment);
  spec.deadline = time_limit;
  spec.keep_output = false;
  const auto found = std::make_shared<std::optional<AcceleratorFacts>>();
  const auto command = Command::start(
      io, std::move(spec),
      [found](const std::string& line) {
        if (auto facts = parse_accelerator_line(line)) *found = std::move(facts);
      },
      [found, done, time_limit](const CommandEnd& end) {
        AcceleratorFacts nothing;
        nothing.problem = why_nothing(end, time_limit);
        done(found->value_or(std::move(nothing)));
      });
  if (command) return;
  AcceleratorFacts nothing;
  nothing.problem = "could not look for GPUs: " + command.error().message;
  done(std::move(nothing));
}

}  // namespace elastictrain::launcher
