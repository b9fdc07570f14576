#include "supervisor/cluster/cluster_requests.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "supervisor/cluster/job_spec_fields.h"
#include "supervisor/cluster/lease_protocol.h"
#include "supervisor/cluster/message_texts.h"
#include "supervisor/protocol/json_text.h"

namespace elastictrain::cluster {
namespace {

using json_fields::Reader;
using Object = nlohmann::ordered_json;

constexpr int kBrokenStatus = 70;

int status_of(cluster_core::Outcome outcome) {
  switch (outcome) {
    case cluster_core::Outcome::kDone:
      return 0;
    case cluster_core::Outcome::kInvalid:
      return 78;
    case cluster_core::Outcome::kUnavailable:
      return 69;
    case cluster_core::Outcome::kNotPermitted:
      return 77;
    case cluster_core::Outcome::kFull:
      return 75;
  }
  return kBrokenStatus;
}

Result<ClientRequest> parse_submit(Reader& in, std::string& problem) {
  cluster_core::Submit submit;
  in("job", submit.spec);
  if (!problem.empty()) return Error{ErrorCode::kInvalid, problem};
  return ClientRequest(std::move(submit));
}

std::optional<cluster_core::Order> order_in(const std::string& command) {
  if (command == "cancel") return cluster_core::Order::kCancel;
  if (command == "pause") return cluster_core::Order::kPause;
  if (command == "resume") return cluster_core::Order::kResume;
  if (command == "priority") return cluster_core::Order::kPriority;
  return std::nullopt;
}

Object places_json(const cluster_core::Slots& slots, const std::vector<cluster_core::HostLine>& hosts) {
  Object list = Object::array();
  for (const auto slot : slots) {
    const std::string& name = hosts[slot.host].name;
    if (list.empty() || list.back()["host"] != name) list.push_back({{"host", name}, {"slots", Object::array()}});
    list.back()["slots"].push_back(slot.number);
  }
  return list;
}

Object job_json(const cluster_core::Job& job, const cluster_core::Cluster& cluster, const ClusterFacts& facts) {
  const auto& book = cluster.book();
  Object out;
  out["id"] = cluster_core::id_text(job.id);
  out["name"] = job.spec.name;
  out["user"] = job.owner.name;
  out["uid"] = job.owner.uid;
  out["phase"] = cluster_core::name_of(job.phase);
  out["why"] = job.why;
  out["priority"] = job.spec.priority;
  out["paused"] = job.paused;
  if (job.spec.deadline_s) {
    out["deadline_unix_s"] = job.submitted_unix_s + *job.spec.deadline_s;
    out["deadline_slots"] = job.slots_in_time;
    out["in_time"] = job.in_time;
  }
  out["min"] = job.spec.min;
  out["max"] = job.spec.max;
  const bool works = book.in_use(job.id) > 0;
  out["slots"] = book.in_use(job.id);
  out["share"] = job.share;
  const auto beside = book.lease(job.id).beside;
  out["beside"] = beside == 0 ? Object() : Object(cluster_core::id_text(beside));
  out["leased"] = places_json(works ? book.lease(job.id).slots : cluster_core::Slots(), cluster.hosts());
  out["stands_on"] = places_json(book.parked(job.id), cluster.hosts());
  if (job.move) {
    out["moving"] = {{"from", places_json(job.move->from, cluster.hosts())},
                     {"to", places_json(job.move->to, cluster.hosts())}};
  }
  out["version"] = book.lease(job.id).version;
  out["overdue"] =
      places_json(book.overdue(job.id, facts.now_s - cluster.settings().recall_timeout_s), cluster.hosts());
  out["run_phase"] = job.run_phase;
  out["workers"] = job.workers;
  out["step"] = job.step;
  out["samples"] = job.samples;
  if (job.spec.samples_total) out["samples_total"] = *job.spec.samples_total;
  if (!job.spec.samples_total && job.expected_samples > 0) {
    out["expected_samples"] = job.expected_samples;
    out["expected_error"] = job.expected_error;
    out["lengths"] = cluster.settings().estimated_lengths ? "estimated" : "said";
  }
  for (const auto& at : job.goodput) out["goodput"].push_back({{"workers", at.slots}, {"rate", at.rate}});
  const auto left_s = cluster.left_s(job);
  out["left_s"] = left_s ? Object(*left_s) : Object();
  out["submitted_unix_s"] = job.submitted_unix_s;
  out["slot_s"] = job.slot_s;
  out["directory"] = job.directory;
  out["pid"] = job.pid;
  if (!job.live()) out["status"] = job.exit_status;
  return out;
}

Object helpers_json(const cluster_core::Cluster& cluster, const ClusterFacts& facts) {
  Object out;
  out["hosts"] = Object::array();
  for (const auto& host : cluster.helpers()) {
    out["hosts"].push_back({{"host", host.name}, {"slots", host.slots}, {"job", host.job}});
  }
  out["most_slots"] = cluster.settings().most_slots;
  const auto demand = cluster.demand();
  out["needed_slots"] = demand.needed;
  out["why"] = demand.why;
  out["asked_slots"] = cluster.asked_slots();
  out["asked_for_s"] = cluster.asked_slots() > 0 ? facts.now_s - cluster.asked_s() : 0;
  return out;
}

}  // namespace

Result<ClientRequest> parse_client_request(const nlohmann::json& object) {
  if (!object.is_object()) return Error{ErrorCode::kInvalid, "a request must be one JSON object on a line"};
  std::string problem, command;
  Reader in(object, "", problem);
  in("command", command, kName);
  if (!problem.empty()) return Error{ErrorCode::kInvalid, problem};
  if (command == "queue" || command == "status") return ClientRequest(QueueRequest{});
  if (command == "submit") return parse_submit(in, problem);
  const auto order = order_in(command);
  if (!order)
    return Error{ErrorCode::kInvalid, "unknown command; there are submit, queue, cancel, pause, resume, priority"};
  cluster_core::Command request;
  request.order = *order;
  in("job", request.job, kName);
  if (request.order == cluster_core::Order::kPriority) in("priority", request.priority, kPriority);
  if (!problem.empty()) return Error{ErrorCode::kInvalid, problem};
  return ClientRequest(std::move(request));
}

std::string answer_of(const cluster_core::Answer& answer) {
  if (answer.outcome != cluster_core::Outcome::kDone) return refusal_answer(answer.outcome, answer.text);
  Object out = {{"ok", true}, {"text", answer.text}};
  if (answer.job != 0) out["job"] = cluster_core::id_text(answer.job);
  return json_text(out);
}

std::string refusal_answer(cluster_core::Outcome outcome, const std::string& text) {
  return json_text(Object{{"ok", false}, {"status", status_of(outcome)}, {"text", text}});
}

std::string broken_answer(const std::string& rule) {
  return json_text(
      Object{{"ok", false},
             {"status", kBrokenStatus},
             {"text", "internal error: " + rule +
                          ". The cluster has ended for it; nothing of this request was carried out, and its "
                          "runs train on. Start it again: it goes on from its journal"}});
}

std::string start_yourself_answer() {
  return json_text(Object{{"ok", true}, {"start", "self"}});
}

std::string queue_answer(const cluster_core::Cluster& cluster, const ClusterFacts& facts) {
  Object out;
  out["name"] = facts.name;
  out["policy"] = cluster.settings().policy;
  if (!cluster.policy_problem().empty()) {
    out["policy_problem"] = cluster.policy_problem();
    out["decides"] = cluster_core::kStandIn;
  }
  out["slots"] = cluster.slots();
  std::size_t leased = 0;
  out["resuming"] = cluster.resuming();
  out["journal_fails"] = facts.journal_fails;
  out["decisions"] = cluster.decisions();
  out["hosts"] = Object::array();
  for (const auto& host : cluster.hosts()) out["hosts"].push_back({{"host", host.name}, {"slots", host.slots}});
  if (cluster.settings().most_slots > 0) out["helpers"] = helpers_json(cluster, facts);
  out["jobs"] = Object::array();
  for (const auto& [id, job] : cluster.jobs()) {
    leased += cluster.book().in_use(id);
    out["jobs"].push_back(job_json(job, cluster, facts));
  }
  out["leased"] = leased;
  out["waiting"] = Object::array();
  for (const auto id : cluster.waiting()) out["waiting"].push_back(cluster_core::id_text(id));
  return json_text(Object{{"ok", true}, {"cluster", std::move(out)}});
}

}  // namespace elastictrain::cluster
