// The messages between a run and its cluster: what one side writes the other reads, and what lies is refused by a text.
#include "supervisor/cluster/lease_protocol.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

using namespace elastictrain;
using namespace elastictrain::cluster;

namespace {

Join some_join() {
  Join join{.job = "j7",
            .run = "digits",
            .directory = "/runs/digits",
            .pid = 4711,
            .min = 1,
            .max = 8,
            .start = 2,
            .lease = 6,
            .holds = {{"h1", {0, 1}, 4}, {"h2", {3}}},
            .samples_total = 30720,
            .suspends_to_file = true,
            .suspends_in_memory = true};
  join.priority = -7;
  join.deadline_s = 7200;
  join.moves = true;
  join.demand = {.one_host = true, .most_hosts = 2, .hosts = {"h1", "h2"}};
  return join;
}

Report some_report() {
  return {.lease = 7,
          .holds = {{"h1", {0, 1}}},
          .phase = JobPhase::kTraining,
          .workers = 4,
          .step = 120,
          .samples = 30720,
          .samples_total = {},
          .expected_samples = 50'000,
          .expected_error = 2'000,
          .goodput = {{1, 120.5}, {2, 0.25}, {64, 1e9}},
          .rates = {{.workers = 4, .hosts = 1, .samples_per_s = 812.25, .views = 12}},
          .packed_rates = {{.workers = 4, .hosts = 2, .samples_per_s = 400.5, .views = 3}},
          .memory_bytes = 1u << 30,
          .wants = 3,
          .lost_hosts = {"h3"}};
}

// Returns the text of the refusal; "accepted" if there is none.
std::string refusal_of_run(const std::string& line) {
  const auto message = from_run(line);
  return message.ok() ? "accepted" : message.error().message;
}

std::string refusal_of_cluster(const std::string& line) {
  const auto message = from_cluster(line);
  return message.ok() ? "accepted" : message.error().message;
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string lease_of(const std::string& slots) {
  return R"({"lease":{"version":1,"slots":)" + slots + "}}";
}

std::string report_with(const std::string& fields) {
  return R"({"report":{"lease":1,"phase":"training","workers":1,"step":1,"samples":1,)" + fields + "}}";
}

}  // namespace

TEST_CASE("what a run says arrives as it was said") {
  Join plain{.run = "r", .directory = "/r", .pid = 1, .min = 1, .max = 1, .start = 1};
  for (const FromRun& message :
       std::vector<FromRun>{some_join(), plain, some_report(), Report{}, Ended{75}, Ended{0}}) {
    const std::string line = to_line(message);
    CHECK_FALSE(says(line, "\n"));
    const auto read = from_run(line);
    REQUIRE_MESSAGE(read.ok(), (read.ok() ? "" : read.error().message));
    CHECK(*read == message);
  }
}

TEST_CASE("the goodput of a report is rates above 0 by rising workers") {
  const auto refusal = [](const std::string& list) {
    return refusal_of_run(report_with(R"("holds":[],"rates":[],"goodput":)" + list));
  };
  CHECK(refusal(R"([{"workers":1,"rate":2},{"workers":3,"rate":1}])") == "accepted");
  CHECK(says(refusal(R"([{"workers":2,"rate":2},{"workers":2,"rate":3}])"), "workers"));
  CHECK(says(refusal(R"([{"workers":2,"rate":2},{"workers":1,"rate":3}])"), "workers"));
  CHECK(says(refusal(R"([{"workers":1,"rate":0}])"), "rate"));
  CHECK(says(refusal(R"([{"workers":1,"rate":-1}])"), "rate"));
  CHECK(says(refusal(R"([{"workers":0,"rate":1}])"), "workers"));
}

TEST_CASE("what a cluster says arrives as it was said") {
  const std::vector<FromCluster> messages{
      Joined{"j7"},
      Refused{"no cluster for you"},
      Lease{.version = 7,
            .slots = {{"h1", {0, 1, 3}, 8}, {"h2", {5}}, {"h3", {0}, 1, "77"}},
            .hold = true,
            .reason = "afs-l: gain"},
      Lease{.version = 8, .slots = {}, .hold = false, .reason = ""},
      Lease{.version = 9, .slots = {{"h1", {0}, 8}}, .hold = false, .reason = "gandiva: packing_tried", .beside = "j3"},
      Lease{.version = 10, .slots = {{"h2", {1}, 8}}, .hold = false, .reason = "1 host", .moves = true},
      QueuePlace{.place = 3, .of = 7, .why = "earlier jobs"},
      End{"cancelled by its user"}};
  for (const FromCluster& message : messages) {
    const auto read = from_cluster(to_line(message));
    REQUIRE_MESSAGE(read.ok(), (read.ok() ? "" : read.error().message));
    CHECK(*read == message);
  }
}

TEST_CASE("the lines are those of the description") {
  CHECK(to_line(FromCluster(Joined{"j1"})) == R"({"job":"j1","ok":true})");
  const auto lease = from_cluster(R"({"lease":{"version":7,"slots":[{"host":"h1","slots":[3,0,1]}],"reason":"x"}})");
  REQUIRE(lease.ok());
  CHECK(std::get<Lease>(*lease).slots == std::vector<HostSlots>{{"h1", {0, 1, 3}}});
  const auto ended = from_run(R"({"ended":{"status":0}})");
  REQUIRE(ended.ok());
  CHECK(std::get<Ended>(*ended).status == 0);
}

TEST_CASE("a field that is not known changes nothing, a host without slots is left out") {
  const auto read = from_cluster(R"({"lease":{"version":1,"slots":[{"host":"h1","slots":[]}],"new":[1]},"more":{}})");
  REQUIRE(read.ok());
  CHECK(std::get<Lease>(*read).slots.empty());
}

TEST_CASE("a text is printable and bounded when it leaves") {
  const auto read = from_cluster(to_line(FromCluster(End{"a\nb" + std::string(2 * kMaxTextBytes, 'x')})));
  REQUIRE(read.ok());
  CHECK(std::get<End>(*read).why.substr(0, 4) == "a bx");
  std::string umlauts;
  while (umlauts.size() <= kMaxTextBytes) umlauts += "x\u00e4";
  CHECK(from_cluster(to_line(FromCluster(End{umlauts}))).ok());
}

TEST_CASE("what is no message is refused") {
  for (const char* line : {"", "x", "[]", "7", "null", "{}", R"({"command":"submit"})", R"({"report":7})",
                           R"({"report":null})", R"({"ended":{}})", R"({"ended":{"status":256}})", "{\"report\":{"}) {
    CAPTURE(line);
    CHECK(refusal_of_run(line) != "accepted");
  }
  for (const char* line : {"", "{}", R"({"ok":1})", R"({"ok":true})", R"({"lease":null})", R"({"lease":[]})",
                           R"({"lease":{}})", R"({"queue":{"place":0,"of":1}})", R"({"queue":{"place":2,"of":1}})"}) {
    CAPTURE(line);
    CHECK(refusal_of_cluster(line) != "accepted");
  }
  CHECK(refusal_of_run("{\"ended\":\"" + std::string(kMaxLineBytes, 'x') + "\"}") == "the line is too long");
  CHECK(refusal_of_run(std::string(kMaxLineBytes - 1, '[')) != "accepted");
}

TEST_CASE("a lease names each slot once, within its host") {
  CHECK(refusal_of_cluster(lease_of(R"([{"host":"h1","slots":[0,7],"of":8}])")) == "accepted");
  const std::vector<std::pair<std::string, std::string>> lies{
      {R"([{"host":"h1","slots":[0,8],"of":8}])", "below 8"},
      {R"([{"host":"h1","slots":[1,1]}])", "distinct"},
      {R"([{"host":"h1","slots":[0]},{"host":"h1","slots":[1]}])", "names a host once"},
      {R"([{"host":"","slots":[0]}])", "\"lease.slots[0].host\" must be a name of letters"},
      {R"([{"slots":[0]}])", "host"},
      {R"([{"host":"a\nb","slots":[0]}])", "a name of letters"},
      {R"([{"host":"h1","slots":[1024]}])", "\"lease.slots[0].slots[0]\" must be a whole number from 0 to 1023"},
      {R"([{"host":"h1","slots":[-1]}])", "a whole number from 0 to 1023"},
      {R"([{"host":"h1","slots":[0.5]}])", "a whole number from 0 to 1023"},
      {R"([{"host":"h1","slots":[1e300]}])", "a whole number from 0 to 1023"},
      {R"([{"host":"h1","slots":["0"]}])", "a whole number from 0 to 1023"},
      {R"([7])", "\"lease.slots[0]\" must be an object"},
      {R"({"h1":[0]})", "a list"}};
  for (const auto& [slots, wanted] : lies) {
    CAPTURE(slots);
    const std::string refusal = refusal_of_cluster(lease_of(slots));
    CAPTURE(refusal);
    CHECK(says(refusal, wanted));
  }
  std::string many = "[";
  for (int host = 0; host < 101; ++host) {
    many += (host > 0 ? "," : "") + std::string(R"({"host":"h)") + std::to_string(host) + R"(","slots":[)";
    for (int slot = 0; slot < 1000; ++slot) many += (slot > 0 ? "," : "") + std::to_string(slot);
    many += "]}";
  }
  CHECK(says(refusal_of_cluster(lease_of(many + "]")), "at most 100000 slots"));
}

TEST_CASE("versions and counts are whole numbers within bounds") {
  for (const char* version : {"0", "-1", "1e300", "1.5", "18446744073709551615", "\"7\"", "null", "nan"}) {
    CAPTURE(version);
    CHECK(refusal_of_cluster(std::string(R"({"lease":{"slots":[],"version":)") + version + "}}") != "accepted");
  }
}

TEST_CASE("a run that reports nonsense is refused") {
  CHECK(refusal_of_run(report_with(R"("rates":[{"workers":4,"hosts":1,"samples_per_s":1.5}])")) == "accepted");
  const std::vector<std::string> lies{R"("rates":[{"workers":0,"hosts":1,"samples_per_s":1}])",
                                      R"("rates":[{"workers":1,"hosts":1,"samples_per_s":1e300}])",
                                      R"("rates":[{"workers":1,"hosts":1,"samples_per_s":-1}])",
                                      R"("rates":[{"workers":1,"hosts":1,"samples_per_s":null}])",
                                      R"("rates":[{"workers":1,"hosts":1,"samples_per_s":nan}])",
                                      R"("samples_total":1e18)",
                                      R"("wants":-1)",
                                      R"("memory_bytes":1e300)",
                                      R"("lost_hosts":[7])",
                                      R"("lost_hosts":"h1")",
                                      R"("phase":"flying")",
                                      R"("holds":[{"host":"h1","slots":[0,0]}])"};
  for (const std::string& fields : lies) {
    CAPTURE(fields);
    CHECK(refusal_of_run(report_with(fields)) != "accepted");
  }
  const std::string rate = R"({"workers":1,"hosts":1,"samples_per_s":1},)";
  std::string rates;
  for (std::size_t i = 0; i < kMaxRates; ++i) rates += rate;
  CHECK(says(refusal_of_run(report_with("\"rates\":[" + rates + rate + "{}]")), "at most 1024"));
}

TEST_CASE(
    "a host or a job of a lease whose name could be an option or more than a word is refused, in both directions") {
  CHECK(from_cluster(lease_of(R"([{"host":"fe80::1%eth0","slots":[0],"job":"77.node_1"}])")).ok());
  for (const char* bad : {"--kubeconfig=/tmp/x", "-oProxyCommand=sh", "a b", "a;sh", "$(sh)", "a/b", "user@host"}) {
    CAPTURE(bad);
    const std::string name = std::string("\"") + bad + "\"";
    CHECK_FALSE(from_cluster(lease_of(R"([{"host":)" + name + R"(,"slots":[0]}])")).ok());
    CHECK_FALSE(from_cluster(lease_of(R"([{"host":"h1","slots":[0],"job":)" + name + "}]")).ok());
    const auto report = report_with(R"("holds":[{"host":)" + name + R"(,"slots":[0]}])");
    CHECK(says(refusal_of_run(report), "\"report.holds[0].host\" must be a name of letters"));
  }
}

TEST_CASE("a join names its limits, its directory and its protocol") {
  const std::string whole = to_line(FromRun(some_join()));
  const auto with = [&](const std::string& was, const std::string& is) {
    std::string line = whole;
    const auto at = line.find(was);
    REQUIRE(at != std::string::npos);
    return line.replace(at, was.size(), is);
  };
  CHECK(refusal_of_run(whole) == "accepted");
  CHECK(says(refusal_of_run(with("\"protocol\":1", "\"protocol\":2")), "both sides need one version"));
  CHECK(says(refusal_of_run(with("\"max\":8", "\"max\":0")), "\"max\" must be"));
  CHECK(says(refusal_of_run(with("\"start\":2", "\"start\":9")), "\"start\" must be"));
  CHECK(says(refusal_of_run(with("\"/runs/digits\"", "\"runs\"")), "absolute"));
  CHECK(says(refusal_of_run(with("\"pid\":4711", "\"pid\":0")), "\"pid\" must be"));
  CHECK(says(refusal_of_run(with("[\"file\",\"host\"]", "[\"tape\"]")),
             "\"suspend[0]\" must be one of \"file\", \"host\""));
  CHECK(says(refusal_of_run(with("\"most_hosts\":2", "\"most_hosts\":-2")), "\"wishes.most_hosts\" must be"));
  CHECK(says(refusal_of_run(with("\"priority\":-7", "\"priority\":-1001")), "\"priority\" must be"));
  CHECK(says(refusal_of_run(with("\"deadline_s\":7200", "\"deadline_s\":0")), "\"deadline_s\" must be"));
}
