// A line from a run or a client to a cluster, and a line from a cluster to a run: a message, or an error with a text
// for the peer. What was read is written as one line that reads as the same message.
#include <cstdint>
#include <string>

#include "supervisor/cluster/cluster_requests.h"
#include "supervisor/cluster/lease_protocol.h"
#include "supervisor/protocol/json_text.h"
#include "tests/fuzz/check.h"

namespace {

using namespace elastictrain;

template <class Message, class Read>
void look(const Result<Message>& message, Read read) {
  if (!message.ok()) {
    fuzz::check(!message.error().message.empty(), "a line is refused without a word");
    return;
  }
  const std::string line = cluster::to_line(*message);
  fuzz::check(line.find('\n') == std::string::npos || line.find('\n') + 1 == line.size(), "a message is not one line");
  const auto again = read(line);
  fuzz::check(again.ok() && *again == *message, "a message reads differently after it was written");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string line(reinterpret_cast<const char*>(data), size);
  look(cluster::from_run(line), [](const std::string& text) { return cluster::from_run(text); });
  look(cluster::from_cluster(line), [](const std::string& text) { return cluster::from_cluster(text); });
  const auto request = cluster::parse_client_request(parse_json(line, cluster::kMaxMessageDepth));
  if (!request.ok()) fuzz::check(!request.error().message.empty(), "a request is refused without a word");
  return 0;
}
