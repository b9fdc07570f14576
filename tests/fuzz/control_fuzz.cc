// One line from the control socket: a request, or an error with a text for the client.
#include <cstdint>
#include <string>

#include "supervisor/control/control_request.h"
#include "tests/fuzz/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace elastictrain;
  const std::string line(reinterpret_cast<const char*>(data), size);
  const auto request = control::parse_request(line, 1);
  if (!request.ok()) fuzz::check(!request.error().message.empty(), "a request is refused without a word");
  const std::string answer = control::answer_line(request.ok(), request.ok() ? line : request.error().message);
  fuzz::check(answer.find('\n') == std::string::npos, "an answer is not one line");
  return 0;
}
