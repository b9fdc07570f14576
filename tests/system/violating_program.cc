// A training program in which worker 2 does wrong, once, in the step of the first argument. With "replicas" it breaks
// an assertion of its session, as a bug would: it asks the component that holds the replicas to keep a replica that was
// never complete. With "parameters" it changes a parameter that the others do not change. With "flood" it sends its
// agent 100,000 notes past the library. With "order" it sums its two gradients in the other order. With "notes" each
// worker writes 20,000 notes, of which those of rank 0 count.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "elastictrain/session.hpp"
#include "supervisor/protocol/codec.h"
#include "supervisor/protocol/worker_messages.h"
#include "train/session/state_handover.h"

namespace {

using namespace elastictrain;

void break_an_assertion() {
  const state::StateBuffers nothing;
  session::Replicas replicas(nothing);
  replicas.begin_receiving(true);
}

void write_notes(Session& session) {
  for (int i = 0; i < 20'000; ++i) session.note("count", std::to_string(i));
}

void flood(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) std::abort();
  std::string frames;
  for (int i = 0; i < 100; ++i) {
    frames += protocol::encode_frame(protocol::WorkerToAgent(protocol::WorkerNote{"flood", std::to_string(i)}));
  }
  for (int i = 0; i < 1000; ++i) {
    for (std::size_t sent = 0; sent < frames.size();) {
      const auto count = ::send(socket, frames.data() + sent, frames.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) return;  // the session has reconnected
      sent += static_cast<std::size_t>(count);
    }
  }
  ::close(socket);
}

int train(char** arguments) {
  const std::uint64_t violating_step = std::strtoull(arguments[1], nullptr, 10);
  const std::string_view what = arguments[2];
  const char* path = std::getenv("ELASTICTRAIN_SOCKET");
  const std::string socket_path = path == nullptr ? "" : path;
  std::vector<float> weights(64, 1.0F);
  std::vector<float> gradient(64);
  std::vector<float> other(32);
  Session session;
  session.share_model("weights", weights.data(), weights.size());
  session.set_data({.sample_count = 4000, .epochs = 3});
  if (!session.start()) return 0;
  while (auto batch = session.next_batch()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    gradient.assign(gradient.size(), 0.5F);
    const bool is_now = batch->step == violating_step;
    const bool is_wrong = is_now && session.worker_id() == 2;
    if (is_now && what == "notes") write_notes(session);
    if (is_wrong && what == "replicas") break_an_assertion();
    if (is_wrong && what == "parameters") weights[7] += 1;
    if (is_wrong && what == "flood") flood(socket_path);
    std::span<float> buckets[] = {gradient, other};
    if (is_wrong && what == "order") std::swap(buckets[0], buckets[1]);
    for (const auto bucket : buckets) session.all_reduce(bucket.data(), bucket.size());
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= 0.01F * gradient[i];
    session.commit_step();
  }
  session.finish();
  return 0;
}

}  // namespace

int main(int, char** arguments) {
  try {
    return train(arguments);
  } catch (const SessionError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
