#include "tests/unit/train_session/every_call.h"

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace elastictrain::test {

namespace {

using Calls = std::vector<std::pair<std::string, std::function<void()>>>;

float value = 1;

std::string returned_of(const Calls& calls) {
  std::string returned;
  for (const auto& [name, call] : calls) {
    try {
      call();
      returned += name + " ";
    } catch (const SessionError&) {
    }
  }
  return returned;
}

Calls calls_with_values(Session& session) {
  return {
      {"all_reduce_elsewhere_async",
       [&] {
         session.all_reduce_elsewhere_async([](const SumElsewhere&) { return std::string(); },
                                            [](SumsElsewhere&) { return std::string(); });
       }},
      {"boundary", [&] { session.boundary(); }},
      {"disagree", [&] { session.disagree("reason"); }},
      {"device_memory", [&] { session.device_memory(2, 1); }},
      {"decline", [&] { session.decline("reason"); }},
      {"attach", [&] { session.attach("key", &value, sizeof value); }},
      {"attachment", [&] { (void)session.attachment("key"); }},
      {"board_put", [&] { session.board_put("key", &value, sizeof value); }},
      {"board_get", [&] { (void)session.board_get("key"); }},
  };
}

}  // namespace

std::string calls_that_return(Session& session) {
  static std::vector<float> room(64);
  static int equal = 0;
  constexpr std::uint64_t one = 1;
  const std::span<const std::uint64_t> shape(&one, 1);
  const Calls calls = {
      {"share_state", [&] { session.share_state("new", &value, sizeof value); }},
      {"share_model", [&] { session.share_model("new", &value, 1); }},
      {"share_tensor", [&] { session.share_tensor("new", &value, "F32", shape); }},
      {"share_tensor_through", [&] { session.share_tensor_through({}, "new", "F32", shape); }},
      {"share_forward_tensor", [&] { session.share_forward_tensor("new", &value, "F32", shape); }},
      {"share_first_tensor", [&] { session.share_first_tensor("new", &value, "F32", shape); }},
      {"move_state", [&] { session.move_state("weights", room.data()); }},
      {"share_local_state", [&] { session.share_local_state("new", &value, sizeof value); }},
      {"share_early", [&] { session.share_early("new", &value, sizeof value); }},
      {"set_data", [&] { session.set_data({.sample_count = 1}); }},
      {"use_device", [&] { session.use_device(0); }},
      {"use_stream_order", [&] { session.use_stream_order(); }},
      {"reserve_gradient_copies", [&] { session.reserve_gradient_copies(16); }},
      {"share_device_state", [&] { session.share_device_state("new", &value, sizeof value); }},
      {"start", [&] { session.start(); }},
      {"next_batch", [&] { session.next_batch(); }},
      {"look_ahead", [&] { session.look_ahead(3); }},
      {"all_reduce", [&] { session.all_reduce(&value, 1); }},
      {"all_reduce_async", [&] { session.all_reduce_async(&value, 1); }},
      {"wait_all_reduce", [&] { session.wait_all_reduce(); }},
      {"all_reduce_device", [&] { session.all_reduce_device(&value, 1); }},
      {"all_reduce_device_async", [&] { session.all_reduce_device_async(&value, 1); }},
      {"commit_step", [&] { session.commit_step(); }},
      {"end_data", [&] { session.end_data(); }},
      {"phase", [&] { session.phase("data"); }},
      {"sum", [&] { session.sum(&value, 1); }},
      {"broadcast", [&] { session.broadcast(&value, sizeof value); }},
      {"reduce_values", [&] { session.reduce_values(&value, 1, DataType::kFloat32); }},
      {"broadcast_from", [&] { session.broadcast_from(&value, sizeof value, 0); }},
      {"broadcast_into", [&] { session.broadcast_into(&value, sizeof value, 0, room.data()); }},
      {"all_gather", [&] { session.all_gather(&value, sizeof value, room.data()); }},
      {"agree", [&] { session.agree(&value, sizeof value, &equal); }},
      {"reduce_values_in", [&] { session.reduce_values_in(1, &value, 1, DataType::kFloat32); }},
      {"all_gather_in", [&] { session.all_gather_in(1, &value, sizeof value, room.data()); }},
      {"broadcast_in", [&] { session.broadcast_in(1, &value, sizeof value); }},
      {"reduce_values_async", [&] { session.reduce_values_async("key", &value, 1, DataType::kFloat32); }},
      {"broadcast_async", [&] { session.broadcast_async("other", &value, sizeof value); }},
      {"step_hooks", [&] { session.step_hooks({}, {}); }},
      {"reduce_scatter", [&] { session.reduce_scatter(room.data(), 1, DataType::kFloat32, Operation::kSum, &value); }},
      {"barrier", [&] { session.barrier(); }},
      {"step_memory", [&] { session.step_memory(sizeof value); }},
      {"enable_store", [&] { session.enable_store(); }},
      {"save", [&] { session.save("saved", &value, sizeof value, 1); }},
      {"request", [&] { session.request(0, "saved", 0, &value, sizeof value); }},
      {"peer_latencies_us", [&] { session.peer_latencies_us(); }},
      {"minimum_spanning_tree", [&] { session.minimum_spanning_tree(); }},
      {"monitors", [&] { session.monitors(); }},
      {"peer_monitors", [&] { session.peer_monitors(); }},
      {"measure_gradient_variance", [&] { session.measure_gradient_variance(1); }},
      {"half_batch", [&] { session.half_batch(); }},
      {"report_halves", [&] { session.report_halves(1, 1); }},
      {"request_resize", [&] { session.request_resize(2); }},
      {"request_batch", [&] { session.request_batch(2); }},
      {"request_learning_rate_factor", [&] { session.request_learning_rate_factor(2); }},
      {"request_synchronization", [&] { session.request_synchronization(Synchronization::kAveraging); }},
      {"request_topology", [&] { session.request_topology("ring"); }},
      {"note", [&] { session.note("key", "value"); }},
      {"early", [&] { session.early("new"); }},
      {"last_step", [&] { session.last_step(); }},
      {"rank", [&] { session.rank(); }},
      {"finish", [&] { session.finish(); }},
  };
  return returned_of(calls_with_values(session)) + returned_of(calls);
}

}  // namespace elastictrain::test
