#include "train/session/worker_components.h"

namespace elastictrain::session {

Worker::Worker(Program& program, Lifecycle& lifecycle, ControlPlane* plane, WorkerId self, bool is_successor)
    : id(self),
      reports(plane),
      seating(plane),
      course(program.data),
      gate(plane, course),
      lane(plane, seating.seat()),
      measurements(reports, program.view.last_step),
      audits({.self = self,
              .hash_every = program.environment.audit_every,
              .keeps_inputs = program.environment.keep_gradients,
              .plane = plane,
              .buffers = program.buffers,
              .seat = seating.seat(),
              .course = course,
              .lifecycle = lifecycle}),
      checkpoints({.environment = program.environment,
                   .buffers = program.buffers,
                   .plane = plane,
                   .seat = seating.seat(),
                   .course = course,
                   .early = program.early,
                   .attachments = program.attachments,
                   .audits = audits,
                   .reports = reports,
                   .lifecycle = lifecycle}),
      replicas(program.buffers),
      handover({.self = self,
                .plane = plane,
                .buffers = program.buffers,
                .early = program.early,
                .forward = program.forward,
                .first = program.first,
                .device = program.device,
                .seat = seating.seat(),
                .course = course,
                .gate = gate,
                .replicas = replicas,
                .audits = audits,
                .lifecycle = lifecycle}),
      host(plane != nullptr && program.environment.keep_gradients, program.copies, seating.seat(), gate, lane),
      device(program.device, host, seating.seat(), gate, lifecycle),
      own_data(program.copies, seating.seat(), gate),
      extension(make_extension({.environment = program.environment,
                                .seat = seating.seat(),
                                .course = course,
                                .gate = gate,
                                .models = program.models,
                                .is_enabled = program.uses_extension})),
      averaging({.models = program.models,
                 .device = program.device,
                 .seat = seating.seat(),
                 .gate = gate,
                 .lane = lane,
                 .handover = handover,
                 .extension = *extension}),
      reducer({.course = course,
               .host = host,
               .device = device,
               .own_data = own_data,
               .averaging = averaging,
               .extension = *extension}),
      runner({.self = self,
              .environment = program.environment,
              .variance_every = program.variance_every,
              .seat = seating.seat(),
              .course = course,
              .handover = handover,
              .device = device,
              .averaging = averaging,
              .reducer = reducer}),
      view(program.on_change, program.view, seating.seat(), averaging, reports, lifecycle),
      membership({.plane = plane,
                  .process_may_park = program.environment.parks,
                  .buffers = program.buffers,
                  .log = program.log,
                  .seating = seating,
                  .view = view,
                  .course = course,
                  .early = program.early,
                  .attachments = program.attachments,
                  .forward = program.forward,
                  .first = program.first,
                  .local = program.local,
                  .replicas = replicas,
                  .handover = handover,
                  .checkpoints = checkpoints,
                  .audits = audits,
                  .measurements = measurements,
                  .lifecycle = lifecycle},
                 is_successor),
      recovery({.plane = plane,
                .seating = seating,
                .view = view,
                .course = course,
                .replicas = replicas,
                .handover = handover,
                .runner = runner,
                .checkpoints = checkpoints,
                .audits = audits,
                .measurements = measurements,
                .membership = membership,
                .lifecycle = lifecycle}),
      requests(seating.seat(), reports),
      notes(reports) {}

std::vector<protocol::WorkerToAgent> Worker::heartbeat() {
  auto messages = audits.waiting();
  messages.insert(messages.begin(), measurements.monitors().heartbeat());
  if (auto request = requests.take_waiting()) messages.push_back(*request);
  return messages;
}

// A checkpoint that is being written reads memory that is about to change, and its journal notes are this worker's.
void Worker::close() {
  recovery.close();
  handover.drop();
  checkpoints.close();
  audits.report();
  notes.close();
  seating.leave();
  extension->end();
}

}  // namespace elastictrain::session
