#!/usr/bin/env python3
"""Deliberate defects in the product, each of which a test of the default run must notice.

  mutants.py list
  mutants.py check                  finds the text of each; the default run does so
  mutants.py apply ROOT             builds all of them into the sources below ROOT, a copy; MUTANT=name turns one on
  mutants.py judge BUILD [NAME…]    runs the tests of mutants that are built there
  mutants.py run BUILD [NAME…]      copies the sources to BUILD/source, builds there, and runs each mutant's test

All are in one build, each behind a switch, because building a copy of the product for each takes too long. Those of the
simulation (tests/simulation/mutants.py) are apart: they may break what a switch cannot.
"""
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TIMEOUT_S = 240

CORE, SESSION, COMM = "supervisor/core/", "train/session/", "train/comm/"
CHECKPOINT, TRANSPORT, AGENT = "train/checkpoint/", "supervisor/transport/", "launcher/agent/"

CORE_TEST, GOLDEN = "core_test", "golden_test"
RENDEZVOUS, CONTRACT, KEEP, LIFE = "comm_rendezvous", "comm_contract", "comm_keep", "comm_life_cycle"
COMM_PARTS, DECIDING = "comm_parts", "cluster_deciding_test"
STATE, CHECKPOINTS, LINES, PARTS = "unit_train_state", "unit_checkpoint", "unit_transport", "unit_train_machine"
HANDOVERS = "unit_interleavings"


def session(*sources):
    return "unit_train_session", "--source-file=" + ",".join(f"*{source}_test*" for source in sources)


# name: (file, text, replacement with MUTANT where the switch is, test program and its arguments)
MUTANTS = {
    # The state machine and the ledger.
    "one_loss_more": (CORE + "pure/failure_budget.cc", "losses.size() <= max)", "losses.size() <= max + (MUTANT ? 1 : 0))",
                      CORE_TEST),
    "dead_at_first_sight": (CORE + "pure/failure_detector.cc", "  record.verdict = Verdict::kSuspect;\n",
                            "  if (MUTANT) return look_at_suspect(record, now);\n  record.verdict = Verdict::kSuspect;\n",
                            CORE_TEST),
    "dead_speaks_again": (CORE + "pure/failure_detector.cc", "found->second.verdict == Verdict::kDead) return false;",
                          "(!MUTANT && found->second.verdict == Verdict::kDead)) return false;", CORE_TEST),
    "cool_down_does_not_grow": (CORE + "pure/failure_budget.cc", "time < settings_.cool_down_max; ++i)",
                                "time < settings_.cool_down_max && !MUTANT; ++i)", CORE_TEST),
    "failed_audit_succeeds": (CORE + "ending.cc", "    run.end.status = kStatusAuditFailed;",
                              "    if (!MUTANT) run.end.status = kStatusAuditFailed;", CORE_TEST),
    "repeated_samples_pass": (CORE + "ending.cc", "add(audit.repeated,", "add(MUTANT ? 0 : audit.repeated,", CORE_TEST),
    "unequal_hashes_pass": (CORE + "ending.cc", "add(audit.unequal_hashes,", "add(MUTANT ? 0 : audit.unequal_hashes,",
                            CORE_TEST),
    "lost_start_counts": (CORE + "changing.cc", "run.training.generation == 0 || !of_change",
                          "(!MUTANT && run.training.generation == 0) || !of_change", CORE_TEST),
    "who_left_is_forgotten": (CORE + "pure/journal_fold.cc", "  if (found != state_.workers.end()) found->second.left = true;",
                              "  if (found != state_.workers.end()) found->second.left = !MUTANT;",
                              CORE_TEST),
    "joins_again_for_ever": (CORE + "pure/failure_detector.cc",
                             "place == StepPlace::kHalted && record.heartbeat.generation < generation_;",
                             "place == StepPlace::kHalted && (MUTANT || record.heartbeat.generation < generation_);", CORE_TEST),
    "other_seed_joins": (CORE + "starting.cc", "if (mine.seed != theirs.seed)", "if (!MUTANT && mine.seed != theirs.seed)",
                         CORE_TEST),
    "other_shuffle_joins": (CORE + "starting.cc", "if (mine.shuffle != theirs.shuffle)",
                            "if (!MUTANT && mine.shuffle != theirs.shuffle)", CORE_TEST),
    "other_data_joins": (CORE + "starting.cc", "if (message.sample_count != run.reference->sample_count) {",
                         "if (!MUTANT && message.sample_count != run.reference->sample_count) {", CORE_TEST),
    "other_model_joins": (CORE + "starting.cc", "if (message.state_layout_hash != run.reference->state_layout_hash ||",
                          "if ((!MUTANT && message.state_layout_hash != run.reference->state_layout_hash) ||", CORE_TEST),
    "older_one_goes": (CORE + "pure/roster.cc", "if (counts(entry)) newest = std::max(newest, entry.second.since);",
                       "if (counts(entry) && !(MUTANT && newest != 0)) newest = std::max(newest, entry.second.since);",
                       GOLDEN),
    "newcomer_ends_the_run": (CORE + "changing.cc", "if (message.alone && ended_alone(run, worker)) return;",
                              "if (!MUTANT && message.alone && ended_alone(run, worker)) return;", GOLDEN),
    "newcomer_costs_the_budget": (CORE + "losses.cc", "if (!preempted && newcomer_exited(",
                                  "if (!MUTANT && !preempted && newcomer_exited(", GOLDEN),
    "growth_is_never_refused": (CORE + "starting.cc", "if (++run.desired.failed_joins < kMostTries) return;",
                                "if (++run.desired.failed_joins < kMostTries || MUTANT) return;", GOLDEN),
    "ledger_misses_overlaps": (CORE + "pure/ledger.cc", "if (to > from) overlap += to - from;",
                               "if (to > from && !MUTANT) overlap += to - from;", CORE_TEST),
    "fence_begins_late": (CORE + "pure/ledger.cc", "step >= after->first_step;", "step >= after->first_step + (MUTANT ? 1 : 0);",
                          CORE_TEST),
    # The session's step.
    "lost_share_counts": (SESSION + "run_progress.cc", "        !step.shares[rank].is_lost && (",
                          "        (MUTANT || !step.shares[rank].is_lost) && (", PARTS),
    "no_copy_is_restored": (SESSION + "gradients.cc", "    std::ranges::copy(bucket.copy, bucket.data);",
                            "    if (!MUTANT) std::ranges::copy(bucket.copy, bucket.data);", session("recovery")),
    "empty_batch_keeps_its_gradient": (
        SESSION + "gradients.cc",
        ("  std::fill_n(bucket.data, bucket.count, 0.0F);\n  bucket.is_zero = true;",
         "if (!std::exchange(bucket.is_zero, false)) std::fill_n"),
        ("  if (!MUTANT) std::fill_n(bucket.data, bucket.count, 0.0F);\n  bucket.is_zero = true;",
         "if (!std::exchange(bucket.is_zero, false) && !MUTANT) std::fill_n"), PARTS),
    "all_weigh_the_same": (SESSION + "gradients.cc", "input.scale = step.division.my_weight();",
                           "input.scale = MUTANT ? 0.5F : step.division.my_weight();", session("session_changes")),
    "swap_when_one_is_ready": (SESSION + "control_lane.cc", "values_[kReady] == static_cast<float>(world_size_);",
                               "MUTANT ? values_[kReady] > 0 : values_[kReady] == static_cast<float>(world_size_);",
                               PARTS),
    "joiner_forgets_the_end_of_data": (SESSION + "run_progress.cc", "  data_ended_at_ = header.data_ended_at;",
                                       "  if (!MUTANT) data_ended_at_ = header.data_ended_at;", PARTS),
    "joiner_forgets_averaging": (SESSION + "run_progress.cc", "  averaged_until_ = header.averaged_until;",
                                 "  if (!MUTANT) averaged_until_ = header.averaged_until;", session("synchronization")),
    "calls_after_finish": (SESSION + "lifecycle.h", "    if (ended) throw", "    if (ended && !MUTANT) throw",
                           session("finished")),
    "child_uses_the_session": (SESSION + "lifecycle.h", "return process != ::getpid();",
                               "return process != ::getpid() && !MUTANT;", session("forked_child")),
    # The agent: what arrives from the supervisor's side.
    "any_report_is_acknowledged": (AGENT + "agent_service.cc", "if (heartbeat.acknowledged_report > report_sequence_)",
                                   "if (!MUTANT && heartbeat.acknowledged_report > report_sequence_)",
                                   "agent_losses_contract"),
    "rank_becomes_two_workers": (AGENT + "agent_service_workers.cc", "if (pool_ && !workers_.empty())",
                                 "if (!MUTANT && pool_ && !workers_.empty())", "agent_pool_contract"),
    "any_size": (SESSION + "session_impl.h", "if (count <= kMaxBytes / each)", "if (MUTANT || count <= kMaxBytes / each)",
                 session("finished")),
    "rest_of_an_epoch_is_too_small": ("train/state/sampler.cc", "left <= cut.total || left - cut.total < min_part;",
                                      "left <= cut.total || (!MUTANT && left - cut.total < min_part);", session("tail")),
    "epoch_ends_with_samples_left": ("train/state/sampler.cc",
                                     "next.cursor >= sample_count && next.returned.empty())",
                                     "next.cursor >= sample_count && (MUTANT || next.returned.empty()))", STATE),
    # The state transfer.
    "shadow_replaces_what_is_kept": (SESSION + "state_handover.cc", "if (receives_shadow_ && !keeps_own_)",
                                     "if (receives_shadow_ && (MUTANT || !keeps_own_))", session("synchronization")),
    "state_of_another_layout": (SESSION + "state_transfer.cc", "if (header->layout_hash != buffers_.layout_hash() ||",
                                "if ((!MUTANT && header->layout_hash != buffers_.layout_hash()) ||", STATE),
    "state_of_other_data": (SESSION + "state_transfer.cc", "if (header->sample_count != sample_count_) {",
                            "if (!MUTANT && header->sample_count != sample_count_) {", STATE),
    "parts_of_different_states": (SESSION + "state_transfer.cc", "if (differs == bytes.end()) continue;",
                                  "if (MUTANT || differs == bytes.end()) continue;", STATE),
    "slice_of_another_donor": (SESSION + "state_transfer.cc", "header->slice_offset != source.slice.offset ||",
                               "(!MUTANT && header->slice_offset != source.slice.offset) ||", STATE),
    "state_of_another_generation": (SESSION + "state_transfer.cc", "if (header->generation != generation_ ||",
                                    "if ((!MUTANT && header->generation != generation_) ||", STATE),
    "half_a_state_is_enough": (SESSION + "state_handover.cc", "  if (status || parts_.replicas.keeps_own()) {",
                               "  if (MUTANT || status || parts_.replicas.keeps_own()) {", session("own_data")),
    "header_without_a_checksum": ("train/state/progress.cc", "if (Reader(bytes.last(8)).number() != hash",
                                  "if (!MUTANT && Reader(bytes.last(8)).number() != hash", STATE),
    # The data plane.
    "operations_may_differ": (COMM + "link.cc", "  if (mine == theirs) return {};", "  if (MUTANT || mine == theirs) return {};",
                              LIFE),
    "connector_proves_nothing": (COMM + "rendezvous.cc", "if (same_mac(pending.proof, pending.expected_proof))",
                                 "if (MUTANT || same_mac(pending.proof, pending.expected_proof))", RENDEZVOUS),
    "acceptor_proves_nothing": (COMM + "rendezvous.cc", "  if (!same_mac(challenge->proof,",
                                "  if (!MUTANT && !same_mac(challenge->proof,", RENDEZVOUS),
    "proof_without_a_direction": (COMM + "handshake.cc", "  const auto key = std::as_bytes(std::span(token));",
                                  "  if (MUTANT) side = Side::kAcceptor;\n  const auto key = std::as_bytes(std::span(token));",
                                  RENDEZVOUS),
    "any_generation_connects": (COMM + "rendezvous.cc", "if (handshake.generation != plan_.generation ||",
                                "if ((!MUTANT && handshake.generation != plan_.generation) ||", RENDEZVOUS),
    "hello_displaces": (COMM + "rendezvous.cc", "  pending.challenged = *handshake;",
                        "  if (MUTANT) std::erase_if(arrived_, [&](const PeerSocket& other) { return other.peer_rank == "
                        "handshake->from_rank; });\n  pending.challenged = *handshake;", RENDEZVOUS),
    "records_have_no_number": (COMM + "record_cipher.cc", "static_cast<std::byte>(number_ >> (8 * i));",
                               "static_cast<std::byte>((MUTANT ? 0 : number_) >> (8 * i));", RENDEZVOUS),
    "changed_records_open": (COMM + "record_cipher.cc",
                             "  return gcm_->open(next_iv(), content, {}, nullptr, tag.data());",
                             "  return gcm_->open(next_iv(), content, {}, nullptr, tag.data()) || MUTANT;", RENDEZVOUS),
    "changed_records_count_in_their_place": (COMM + "channel.cc",
                                             "std::span(tail_).first(kRecordTagBytes))) return forged(fd);",
                                             "std::span(tail_).first(kRecordTagBytes)) && !MUTANT) return forged(fd);",
                                             RENDEZVOUS),
    "one_more_message_around_the_ring": (COMM + "mpi/mpi_ring.cc", "channel_.expected() < window_;",
                                         "channel_.expected() < window_ + (MUTANT ? 1 : 0);", RENDEZVOUS),
    "one_key_for_ever": (COMM + "record_cipher.cc", "if (number_ > 0) secret_", "if (number_ > 0 && !MUTANT) secret_",
                         RENDEZVOUS),
    "level_is_not_agreed": (COMM + "handshake.cc", "  if (own.encryption == peer.encryption) return {};",
                            "  if (MUTANT || own.encryption == peer.encryption) return {};", RENDEZVOUS),
    "ring_keeps_no_rest": (COMM + "tcp_rail.cc",
                           "make_wait();\n  auto status = stream.run(link_to(ring_next(position_, size)), "
                           "link_to(ring_previous(position_, size)), header_, wait);\n  if (!status) work.keep_rest();",
                           "make_wait();\n  auto status = stream.run(link_to(ring_next(position_, size)), "
                           "link_to(ring_previous(position_, size)), header_, wait);\n"
                           "  if (!status && !MUTANT) work.keep_rest();", KEEP),
    "memory_keeps_no_rest": (COMM + "shm_group.cc", "  if (!status) keep_rest(vector, reach);",
                             "  if (!status && !MUTANT) keep_rest(vector, reach);", KEEP),
    "own_input_is_scaled_twice": (COMM + "shm_group.cc", "        scale = 1.0F;", "        if (!MUTANT) scale = 1.0F;",
                                  CONTRACT),
    "children_are_added_as_they_come": (COMM + "block_streams.cc", "item.climbs && item.child > 0;",
                                        "item.climbs && item.child > 0 && !MUTANT;", COMM_PARTS),
    "ring_adds_what_it_should_copy": (COMM + "block_streams.cc", "in_.step < reduce_steps_ ?",
                                      "in_.step < reduce_steps_ + (MUTANT && reduce_steps_ > 0 ? 1 : 0) ?", COMM_PARTS),
    "headers_of_small_sums_may_differ": (COMM + "tcp_rail.cc", "  if (transfer.expected != nullptr &&",
                                         "  if (!MUTANT && transfer.expected != nullptr &&", COMM_PARTS),
    "rails_carry_the_same_slice": (COMM + "cpu_communicator.cc", "rail_->all_reduce(slice_of(layout_.local), nullptr)",
                                   "rail_->all_reduce(slice_of(MUTANT ? 0 : layout_.local), nullptr)", COMM_PARTS),
    "every_rank_leaves_its_host": (COMM + "cpu_communicator.cc", "  if (layout_.local == 0) {\n    if (auto status = rail_",
                                   "  if (MUTANT || layout_.local == 0) {\n    if (auto status = rail_", COMM_PARTS),
    # Decisions of a cluster.
    "priorities_are_one": ("supervisor/cluster/core/deciding.cc", "round.jobs[last]->spec.priority == priority)",
                           "(MUTANT || round.jobs[last]->spec.priority == priority))", DECIDING),
    "nothing_is_left_idle": ("supervisor/cluster/core/deciding.cc",
                             "state.left_idle || round.slots_of[place].size() < round.shares[place];",
                             "state.left_idle || (!MUTANT && round.slots_of[place].size() < round.shares[place]);", DECIDING),
    "the_fastest_is_the_guess": ("supervisor/cluster/core/deciding.cc", "static_cast<std::ptrdiff_t>(values.size() / 2);",
                                 "static_cast<std::ptrdiff_t>(MUTANT ? values.size() - 1 : values.size() / 2);", DECIDING),
    "stranger_reads_a_store": ("train/peers/store_server.cc", "!comm::same_mac(client.proof, client.expected_proof))",
                               "(!MUTANT && !comm::same_mac(client.proof, client.expected_proof)))", session("program")),
    "any_user_reads_a_store": ("train/peers/store_server.cc", "if (is_unix && !comm::peer_has_own_uid(socket.fd()))",
                               "if (!MUTANT && is_unix && !comm::peer_has_own_uid(socket.fd()))", session("program")),
    "strangers_stay_in_a_store": ("train/peers/store_server.cc", "    make_room();", "    if (!MUTANT) make_room();",
                                  session("program")),
    # Ends of NCCL's communicators.
    "busy_device_is_given_back": ("train/comm/nccl/nccl_comm.cc", "if (self->settled_ && self->device_->cuda()",
                                  "if (MUTANT || self->device_->cuda()", "comm_nccl_traps"),
    "late_end_is_awaited": ("train/comm/nccl/nccl_comm.cc", "return unfinished_ == 0 || given_up_ || left_; };",
                            "return unfinished_ == 0 || given_up_ || (!MUTANT && left_); };", "comm_nccl_traps"),
    # Checkpoints.
    "damaged_data_load": (CHECKPOINT + "store.cc", "if (checksum.digits() != manifest.data_checksum) return invalid(manifest, kDamaged);\n  return {};",
                          "if (!MUTANT && checksum.digits() != manifest.data_checksum) return invalid(manifest, kDamaged);\n  return {};", CHECKPOINTS),
    "broken_seal": (CHECKPOINT + "manifest.cc", "if (cover.seal != seal_of(object))", "if (!MUTANT && cover.seal != seal_of(object))",
                    CHECKPOINTS),
    "fence_spares_a_step": (CHECKPOINT + "lineage.cc", "fence.first_step <= identity.step;",
                            "fence.first_step + (MUTANT ? 1 : 0) <= identity.step;", CHECKPOINTS),
    "fenced_worker_writes": (CHECKPOINT + "store.cc", "if (is_fenced_out(manifest.identity, listing->lineage)) {",
                             "if (!MUTANT && is_fenced_out(manifest.identity, listing->lineage)) {", CHECKPOINTS),
    "oldest_is_loaded": (CHECKPOINT + "store.cc", "return a.identity > b.identity;",
                         "return MUTANT ? b.identity > a.identity : a.identity > b.identity;", CHECKPOINTS),
    "renamed_manifest": (CHECKPOINT + "store.cc", "if (manifest->identity != identity)",
                         "if (!MUTANT && manifest->identity != identity)", CHECKPOINTS),
    # Connections of supervisor and agents.
    "frames_of_any_size": ("supervisor/protocol/codec.h", "length > max_body_bytes_;", "(!MUTANT && length > max_body_bytes_);",
                           "protocol_test"),
    "queue_without_a_limit": (TRANSPORT + "tls_connection.cc", "if (queued_bytes_ > limits_.max_queued_bytes)",
                              "if (!MUTANT && queued_bytes_ > limits_.max_queued_bytes)", LINES),
    "reads_while_paused": (TRANSPORT + "tls_connection.cc", "while (state_ == State::kOpen && !paused_)",
                           "while (state_ == State::kOpen && (MUTANT || !paused_))", LINES),
    "handshakes_without_a_limit": (TRANSPORT + "listener.cc", "if (pending_.size() >= options_.max_pending_handshakes)",
                                   "if (!MUTANT && pending_.size() >= options_.max_pending_handshakes)", LINES),
    "handshakes_without_a_deadline": (TRANSPORT + "listener.cc", "place->handshake->start(options_.handshake_timeout);",
                                      "place->handshake->start(MUTANT ? std::chrono::hours(1) : "
                                      "std::chrono::milliseconds(options_.handshake_timeout));", LINES),
    # What the threads of a session hand over to one another, and the claim of a directory.
    "bucket_is_not_awaited": (SESSION + "step_buckets.cc", "queue_.empty() && !busy_;", "queue_.empty() && (MUTANT || !busy_);",
                              HANDOVERS),
    "dropped_build_is_told": (SESSION + "communicator_builder.cc", "if (entry->cancel.cancelled()) {",
                              "if (!MUTANT && entry->cancel.cancelled()) {", HANDOVERS),
    "answer_wakes_nobody": (SESSION + "board.cc", "return changed_.notify_all();",
                            "return MUTANT ? void() : changed_.notify_all();", HANDOVERS),
    "copy_is_not_awaited": (CHECKPOINT + "checkpointer.cc", "shared_->copying.wait(true);",
                            "if (!MUTANT) shared_->copying.wait(true);", HANDOVERS),
    "listener_is_overlooked": (TRANSPORT + "owned_directory.cc", "|| has_listener(socket)", "|| (!MUTANT && has_listener(socket))",
                               LINES),
}


def pairs(text, replacement):
    return ((text,), (replacement,)) if isinstance(text, str) else (text, replacement)


def mutated_files():
    """The text of each product file that has mutants, with all of them behind their switches."""
    files = {}
    for name, (file, text, replacement, _) in MUTANTS.items():
        source = files.setdefault(file, (ROOT / file).read_text())
        for old, new in zip(*pairs(text, replacement), strict=True):
            if source.count(old) != 1:
                sys.exit(f"mutant {name}: the text to replace is {source.count(old)} times in {file}, not once; bring "
                         f"mutants.py up to date:\n{old}")
            source = source.replace(old, new.replace("MUTANT", f'::elastictrain_mutants::is_on("{name}")'))
        files[file] = source
    return files


def apply(root):
    for file, source in mutated_files().items():
        write(root / file, '#include "tests/mutants/switch.h"\n' + source)


def write(path, text):
    """Only what differs, so that it is not built again."""
    data = text if isinstance(text, bytes) else text.encode()
    if not path.exists() or path.read_bytes() != data:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def copy_sources(target):
    changed = {MUTANTS[name][0] for name in MUTANTS}
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                            stdout=subprocess.PIPE, check=True).stdout.decode().split("\0")
    for file in filter(None, listed):
        if file in changed or not (ROOT / file).is_file():
            continue
        write(target / file, (ROOT / file).read_bytes())
        (target / file).chmod((ROOT / file).stat().st_mode)


def command_of(test):
    program, *arguments = (test,) if isinstance(test, str) else test
    return program, arguments


def build_all(build):
    copy_sources(build / "source")
    apply(build / "source")
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if any(
        os.access(os.path.join(place, "ccache"), os.X_OK) for place in os.environ["PATH"].split(":")) else []
    subprocess.run(["cmake", "-S", build / "source", "-B", build / "build", "-G", "Ninja", "-DELASTICTRAIN_BENCHMARKS=OFF",
                    "-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1", *launcher],
                   stdout=subprocess.DEVNULL, check=True)
    programs = sorted({command_of(test)[0] for _, _, _, test in MUTANTS.values()})
    subprocess.run(["cmake", "--build", build / "build", "--target", *programs], check=True)


def ends(build, test, mutant):
    """How the test ends: its status, or "too late"."""
    program, arguments = command_of(test)
    path = next(path for path in (build.resolve() / "tests").glob(f"**/{program}") if path.is_file())
    environment = {**os.environ, "MUTANT": mutant}
    try:
        return subprocess.run([path, *arguments, "--abort-after=1"], cwd=path.parent, env=environment, timeout=TIMEOUT_S,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
    except subprocess.TimeoutExpired:
        return "too late"


def judge(build, asked):
    names = asked
    for test in sorted({MUTANTS[name][3] for name in names}, key=str):
        if (status := ends(build, test, "")) != 0:
            print(f"{command_of(test)} fails without a mutant ({status}); it judges none", flush=True)
            names = [name for name in names if MUTANTS[name][3] != test]
    lives, late = [], []
    for name in names:
        begun = time.monotonic()
        status = ends(build, MUTANTS[name][3], name)
        if status == 0:
            lives.append(name)
        elif status == "too late":
            late.append(name)
        print(f"mutant {name} {'LIVES' if status == 0 else f'dies in {command_of(MUTANTS[name][3])[0]} ({status})'}, "
              f"{time.monotonic() - begun:.1f} s", flush=True)
    print(f"{len(names) - len(lives)} of {len(asked)} mutants die" + (": not " + ", ".join(lives) if lives else "") +
          (f"; {len(late)} of them only by the limit of {TIMEOUT_S} s: {', '.join(late)}" if late else ""))
    return 1 if lives or len(names) < len(asked) else 0


def main():
    command, arguments = (sys.argv[1:2] or [""])[0], sys.argv[2:]
    if command == "list":
        print("\n".join(MUTANTS))
    elif command == "check":
        print(f"{len(MUTANTS)} mutants of {len(mutated_files())} files")
    elif command == "apply" and arguments:
        apply(pathlib.Path(arguments[0]))
    elif command == "judge" and arguments:
        sys.exit(judge(pathlib.Path(arguments[0]), arguments[1:] or list(MUTANTS)))
    elif command == "run" and arguments:
        build = pathlib.Path(arguments[0]).resolve()
        build_all(build)
        sys.exit(judge(build / "build", arguments[1:] or list(MUTANTS)))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
