#include "train/session/worker_components.h"

namespace elastictrain::session {

WorkerComponents::WorkerComponents(Program& program, Lifecycle& lifecycle, ControlPlane* plane, WorkerId self,
                                   bool is_successor)
    : id(self),
      reports(plane),
      exchange(plane),
      run_progress(program.data),
      gate(plane, run_progress),
      lane(plane, exchange.assignment()),
      measurements(reports, program.view.last_step),
      audits({.self = self,
              .hash_every = program.environment.audit_every,
              .keeps_inputs = program.environment.keep_gradients,
              .plane = plane,
              .buffers = program.buffers,
              .assignment = exchange.assignment(),
              .run_progress = run_progress,
              .lifecycle = lifecycle}),
      checkpoints({.environment = program.environment,
                   .buffers = program.buffers,
                   .on_other_layout = program.on_other_layout,
                   .division = program.division,
                   .plane = plane,
                   .assignment = exchange.assignment(),
                   .run_progress = run_progress,
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
                .assignment = exchange.assignment(),
                .run_progress = run_progress,
                .gate = gate,
                .replicas = replicas,
                .audits = audits,
                .lifecycle = lifecycle}),
      host(plane != nullptr && program.environment.keep_gradients, program.copies, exchange.assignment(), gate, lane),
      device(program.device, host, exchange.assignment(), gate, lifecycle),
      own_data(program.copies, exchange.assignment(), gate),
      extension(make_extension({.environment = program.environment,
                                .assignment = exchange.assignment(),
                                .run_progress = run_progress,
                                .gate = gate,
                                .models = program.models,
                                .is_enabled = program.uses_extension})),
      averaging({.models = program.models,
                 .device = program.device,
                 .assignment = exchange.assignment(),
                 .gate = gate,
                 .lane = lane,
                 .handover = handover,
                 .extension = *extension}),
      reducer({.run_progress = run_progress,
               .host = host,
               .device = device,
               .own_data = own_data,
               .averaging = averaging,
               .extension = *extension}),
      runner({.self = self,
              .environment = program.environment,
              .variance_every = program.variance_every,
              .assignment = exchange.assignment(),
              .run_progress = run_progress,
              .handover = handover,
              .device = device,
              .averaging = averaging,
              .reducer = reducer}),
      view(program.on_change, program.view, exchange.assignment(), averaging, reports, lifecycle),
      generation_change({.plane = plane,
                         .process_may_park = program.environment.parks,
                         .buffers = program.buffers,
                         .log = program.log,
                         .exchange = exchange,
                         .view = view,
                         .run_progress = run_progress,
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
                .exchange = exchange,
                .view = view,
                .run_progress = run_progress,
                .replicas = replicas,
                .handover = handover,
                .runner = runner,
                .checkpoints = checkpoints,
                .audits = audits,
                .measurements = measurements,
                .generation_change = generation_change,
                .lifecycle = lifecycle}),
      requests(exchange.assignment(), reports),
      notes(reports) {}

std::vector<protocol::WorkerToAgent> WorkerComponents::heartbeat() {
  auto messages = audits.waiting();
  messages.insert(messages.begin(), measurements.monitors().heartbeat());
  if (auto request = requests.take_waiting()) messages.push_back(*request);
  return messages;
}

// A checkpoint that is being written reads memory that is about to change, and its journal notes are this worker's.
void WorkerComponents::close() {
  recovery.close();
  handover.drop();
  checkpoints.close();
  audits.report();
  notes.close();
  exchange.leave();
  extension->end();
}

}  // namespace elastictrain::session
