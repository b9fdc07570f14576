// A training program in which one worker breaks an assertion of its session, as a bug would: it asks the component that
// holds the replicas to keep a replica that was never complete. Worker 2 does it, once, in the step of the argument.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

#include "elastictrain/session.hpp"
#include "train/session/replicas.h"

int main(int, char** arguments) {
  const std::uint64_t violating_step = std::strtoull(arguments[1], nullptr, 10);
  const elastictrain::state::StateBuffers nothing;
  elastictrain::session::Replicas replicas(nothing);
  std::vector<float> weights(64, 1.0F);
  std::vector<float> gradient(64);
  elastictrain::Session session;
  session.share_model("weights", weights.data(), weights.size());
  session.set_data({.sample_count = 4000, .epochs = 3});
  if (!session.start()) return 0;
  while (auto batch = session.next_batch()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    gradient.assign(gradient.size(), 0.5F);
    if (session.worker_id() == 2 && batch->step == violating_step) replicas.begin_receiving(true);
    session.all_reduce(gradient.data(), gradient.size());
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= 0.01F * gradient[i];
    session.commit_step();
  }
  session.finish();
  return 0;
}
