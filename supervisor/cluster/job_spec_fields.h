// Purpose: the fields of a job's specification in JSON: of a request, and of the cluster's journal.
#pragma once

#include "supervisor/cluster/core/job.h"
#include "supervisor/cluster/lease_protocol.h"
#include "supervisor/cluster/message_texts.h"

namespace elastictrain::cluster_core {

template <class Io, json_fields::Of<JobSpec> T>
void each_field(Io& io, T& v) {
  using namespace cluster;
  constexpr auto slots = json_fields::within(1, kMaxLeasedSlots);
  io("name", v.name, kName);
  io("arguments", v.arguments, kLongText.at_most(kMaxArguments).optional());
  io("working_directory", v.working_directory, kText);
  io("environment", v.environment, kLongText.at_most(kMaxArguments).optional());
  io("min", v.min, slots);
  io("max", v.max, slots);
  io("start", v.start, slots);
  io("priority", v.priority, kPriority.optional());
  io("samples_total", v.samples_total, json_fields::within(0, kMaxCount).unless_zero());
  io("deadline_s", v.deadline_s, json_fields::within_real(1, static_cast<double>(kMaxDeadline_s)).unless_zero());
  io("suspends", v.suspends, json_fields::kOptional);
  io("one_host", v.one_host, json_fields::kOptional);
  io("most_hosts", v.most_hosts, json_fields::within(0, kMaxHosts).optional());
  io("hosts", v.hosts, kName.at_most(kMaxHosts).optional());
}

}  // namespace elastictrain::cluster_core
