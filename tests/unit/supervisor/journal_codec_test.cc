#include "supervisor/journal_codec.h"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <variant>

#include "supervisor/protocol/member_count.h"
#include "tests/support/distinct_values.h"

using namespace elastictrain;
using namespace elastictrain::core;

namespace {

struct EachMember {
  template <class R, class Visit>
  void operator()(R& content, Visit visit) const {
    with_fields(static_cast<const R*>(nullptr),
                [&](const auto&... field) { (visit_member(content.*field.member, visit), ...); });
  }

 private:
  template <class Visit>
  static void visit_member(record::RawJson& value, Visit) {
    value.text = R"({"now_s":1.5})";
  }
  template <class Visit>
  static void visit_member(record::NamedNumbers& numbers, Visit) {
    numbers = {{"some number", 1.5}, {"another", 2.5}};
  }
  template <class Member, class Visit>
  static void visit_member(Member& member, Visit visit) {
    visit(member);
  }
};

Record decoded(const std::string& line) {
  const auto read = decode_journal_line(line);
  REQUIRE(read);
  REQUIRE(read->record);
  return *read->record;
}

struct ThreeMembers {
  WorkerId worker;
  std::optional<std::string> text;
  std::vector<std::uint32_t> numbers;
};
struct NoMembers {};
static_assert(protocol::member_count<ThreeMembers>() == 3);
static_assert(protocol::member_count<NoMembers>() == 0);

}  // namespace

TEST_CASE("every field of every record survives the round trip") {
  testing::for_each_alternative<Record>([](Record record) {
    CAPTURE(event_of(record));
    const auto empty = fields_of(record);
    testing::DistinctValues(EachMember{}).fill(record);
    const auto filled = fields_of(record);
    const Record back = decoded(encode_journal_line(record, 7, 1.5, 2.5));
    CHECK(back.index() == record.index());
    CHECK(fields_of(back) == filled);
    const std::set<std::pair<std::string, std::string>> defaults(empty.begin(), empty.end());
    for (const auto& field : filled) {
      CAPTURE(field.first);
      CHECK_FALSE(defaults.contains(field));
    }
  });
}

TEST_CASE("no event and no field of a record has a name that occurs twice") {
  std::set<std::string> events;
  for (const RecordFormat& format : journal_format()) {
    CAPTURE(format.event);
    CHECK(events.insert(format.event).second);
    if (!format.old_event.empty()) CHECK(events.insert(format.old_event).second);
    std::set<std::string> names{"seq", "t", "up", "event"};
    for (const RecordFormat::Field& field : format.fields) {
      CAPTURE(field.name);
      CHECK(names.insert(field.name).second);
      CHECK(field.since <= record::kSchemaVersion);
      if (!field.old_name.empty()) CHECK(names.insert(field.old_name).second);
    }
    CHECK(format.meaning.ends_with("."));
  }
}

TEST_CASE("a line has number, times and event before the record's fields") {
  CHECK(encode_journal_line(record::AgentSuspect{"a \"b\"", 12}, 3, 1.5, 0.25) ==
        R"({"seq":3,"t":1.500000,"up":0.250000,"event":"agent_suspect","host":"a \"b\"","silent_ms":12})");
  const auto line = decode_journal_line(R"({"seq":3,"t":1.5,"up":0.25,"event":"host_back","host":"A"})");
  REQUIRE(line);
  CHECK(line->up_s == 0.25);
}

TEST_CASE("a field without content is left out, and names of the version before are read") {
  record::PlanUpdated update;
  CHECK(fields_of(update).empty());
  update = std::get<record::PlanUpdated>(
      decoded(R"({"event":"reshared","per_worker":64,"wished_factor":0.5,"wished_noise_scale":640,)"
              R"("wished_topology":"ring","wished_fathers":[1,1],"wished_synchronization":"averaging"})"));
  CHECK(update.per_worker == 64);
  CHECK(update.target_factor == 0.5);
  CHECK(update.target_noise_scale == 640);
  CHECK(update.target_topology == protocol::Topology::kRing);
  CHECK(update.target_parents == std::vector<std::uint32_t>{1, 1});
  CHECK(update.target_synchronization == protocol::Synchronization::kAveraging);
  const auto generation = std::get<record::GenerationComplete>(decoded(R"({"event":"generation","kind":"reshare"})"));
  CHECK(generation.kind == protocol::ChangeKind::kUpdatePlan);
  CHECK(std::holds_alternative<record::TargetUnmet>(decoded(R"({"event":"wish_unmet","wanted":4})")));
  CHECK(std::holds_alternative<record::PlanUpdateRequested>(decoded(R"({"event":"reshare_requested"})")));
  CHECK(std::get<record::Decided>(decoded(R"({"event":"decided","replace":3})")).replace ==
        std::vector<std::uint64_t>{3});
}

TEST_CASE("damaged fields keep their default, unknown ones are ignored, unknown events are no record") {
  const auto prepare = std::get<record::Prepare>(
      decoded(R"({"event":"prepare","generation":"x","kind":"somehow","members":[1,"2",-3,4294967295,5],)"
              R"("learning_rate_factor":[],"later":{"a":1},"fence":null})"));
  CHECK(prepare.generation == 0);
  CHECK(prepare.kind == protocol::ChangeKind::kStart);
  CHECK(prepare.members == std::vector<WorkerId>{WorkerId{1}, WorkerId{}, WorkerId{5}});
  CHECK(prepare.learning_rate_factor == 1.0);
  CHECK_FALSE(prepare.fence);
  CHECK(std::get<record::JournalGap>(decoded(R"({"event":"journal_gap","lost":18446744073709551615})")).lost == 0);
  CHECK(std::get<record::RunOpened>(decoded(R"({"event":"run_opened"})")).schema == 1);
  const auto unknown = decode_journal_line(R"({"event":"something_new","worker":1})");
  REQUIRE(unknown);
  CHECK_FALSE(unknown->record);
  for (const char* line : {"", "[]", "7", R"({"event":7})", R"({"seq":13,"event":"comm)", "\xff\xfe"}) {
    CHECK_FALSE(decode_journal_line(line));
  }
}

TEST_CASE("a number with the name of a field is no field") {
  record::Decided decided;
  decided.code = "replace";
  decided.replace = {{2}};
  decided.numbers = {{"workers", 1}, {"seq", 3}, {"slow", 1}};
  const std::string line = encode_journal_line(decided, 7, 1.5, 2.5);
  const auto back = std::get<record::Decided>(decoded(line));
  CHECK_FALSE(back.workers);
  CHECK(back.numbers == record::NamedNumbers{{"workers_number", 1}, {"seq_number", 3}, {"slow", 1}});
}
