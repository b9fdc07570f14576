#include "supervisor/journal_codec.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

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

template <class R>
R content_of(const Record& record) {
  REQUIRE(record.is<R>());
  return *record.as<R>();
}

void check_round_trip(const Record& empty, const Record& record) {
  CAPTURE(event_of(record));
  const auto filled = fields_of(record);
  const Record back = decoded(encode_journal_line(record, 7, 1.5, 2.5));
  CHECK(back.place() == record.place());
  CHECK(fields_of(back) == filled);
  const auto values = fields_of(empty);
  const std::set<std::pair<std::string, std::string>> defaults(values.begin(), values.end());
  for (const auto& field : filled) {
    CAPTURE(field.first);
    CHECK_FALSE(defaults.contains(field));
  }
}

template <class... R>
void check_all_round_trips(record::RecordList<R...>) {
  const auto check = [](const auto& empty) {
    auto filled = empty;
    testing::DistinctValues(EachMember{}).fill(filled);
    check_round_trip(empty, filled);
  };
  (check(R{}), ...);
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
  check_all_round_trips(record::AllRecords());
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
  update = content_of<record::PlanUpdated>(
      decoded(R"({"event":"reshared","per_worker":64,"wished_factor":0.5,"wished_noise_scale":640,)"
              R"("wished_topology":"ring","wished_fathers":[1,1],"wished_synchronization":"averaging"})"));
  CHECK(update.per_worker == 64);
  CHECK(update.target_factor == 0.5);
  CHECK(update.target_noise_scale == 640);
  CHECK(update.target_topology == protocol::Topology::kRing);
  CHECK(update.target_parents == std::vector<std::uint32_t>{1, 1});
  CHECK(update.target_synchronization == protocol::Synchronization::kAveraging);
  const auto generation = content_of<record::GenerationComplete>(decoded(R"({"event":"generation","kind":"reshare"})"));
  CHECK(generation.kind == protocol::ChangeKind::kUpdatePlan);
  CHECK(decoded(R"({"event":"wish_unmet","wanted":4})").is<record::TargetUnmet>());
  CHECK(decoded(R"({"event":"reshare_requested"})").is<record::PlanUpdateRequested>());
  CHECK(content_of<record::Decided>(decoded(R"({"event":"decided","replace":3})")).replace ==
        std::vector<std::uint64_t>{3});
}

TEST_CASE("damaged fields keep their default, unknown ones are ignored, unknown events are no record") {
  const auto prepare = content_of<record::Prepare>(
      decoded(R"({"event":"prepare","generation":"x","kind":"somehow","members":[1,"2",-3,4294967295,5],)"
              R"("learning_rate_factor":[],"later":{"a":1},"fence":null})"));
  CHECK(prepare.generation == 0);
  CHECK(prepare.kind == protocol::ChangeKind::kStart);
  CHECK(prepare.members == std::vector<WorkerId>{WorkerId{1}, WorkerId{}, WorkerId{5}});
  CHECK(prepare.learning_rate_factor == 1.0);
  CHECK_FALSE(prepare.fence);
  CHECK(content_of<record::JournalGap>(decoded(R"({"event":"journal_gap","lost":18446744073709551615})")).lost == 0);
  CHECK(content_of<record::RunOpened>(decoded(R"({"event":"run_opened"})")).schema == 1);
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
  const auto back = content_of<record::Decided>(decoded(line));
  CHECK_FALSE(back.workers);
  CHECK(back.numbers == record::NamedNumbers{{"workers_number", 1}, {"seq_number", 3}, {"slow", 1}});
}
