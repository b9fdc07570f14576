// Every field of every message: a new message or field needs no new test.
#include <doctest/doctest.h>

#include <string>
#include <variant>

#include "supervisor/protocol/codec.h"
#include "supervisor/protocol/wire.h"
#include "tests/support/distinct_values.h"

namespace elastictrain::protocol {
namespace {

struct EachField {
  template <class Message, class Visit>
  void operator()(Message& message, Visit visit) const {
    std::apply([&](auto&... field) { (visit(field), ...); }, fields(message));
  }
};

template <class Message>
std::string body_of_message(const Message& message) {
  return encode_frame(message).substr(kFrameHeaderBytes);
}

template <class Message>
void check_round_trip(Message message) {
  CAPTURE(message.index());
  const std::string empty = body_of_message(message);
  testing::DistinctValues(EachField{}).fill(message);
  const std::string filled = body_of_message(message);
  auto decoded = decode_body<Message>(filled);
  REQUIRE(decoded.ok());
  CHECK(decoded->index() == message.index());
  CHECK(body_of_message(*decoded) == filled);
  const auto fields_in = [](const auto& alternative) { return member_count<std::decay_t<decltype(alternative)>>(); };
  if (std::visit(fields_in, message) > 0) CHECK(filled != empty);
}

TEST_CASE("codec: every field of every message survives the round trip") {
  elastictrain::testing::for_each_alternative<WorkerToAgent>([](WorkerToAgent message) { check_round_trip(message); });
  elastictrain::testing::for_each_alternative<WorkerUp>([](WorkerUp message) {
    check_round_trip(AgentUp{FromWorker{WorkerId{}, message}});
  });
  elastictrain::testing::for_each_alternative<WorkerDown>([](WorkerDown message) {
    check_round_trip(message);
    check_round_trip(AgentDown{ToWorkers{{}, message}});
  });
  elastictrain::testing::for_each_alternative<AgentUp>([](AgentUp message) { check_round_trip(message); });
  elastictrain::testing::for_each_alternative<AgentDown>([](AgentDown message) { check_round_trip(message); });
  elastictrain::testing::for_each_alternative<Bootstrap>([](Bootstrap message) { check_round_trip(message); });
  elastictrain::testing::for_each_alternative<GuestUp>([](GuestUp message) { check_round_trip(message); });
  elastictrain::testing::for_each_alternative<GuestDown>([](GuestDown message) { check_round_trip(message); });
}

}  // namespace
}  // namespace elastictrain::protocol
