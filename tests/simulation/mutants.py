#!/usr/bin/env python3
"""Deliberately broken copies of the product, each of which the simulation must catch.

  mutants.py list
  mutants.py source NAME              the file that it breaks, below the root
  mutants.py make NAME ROOT OUT       writes the broken copy; fails when the text to replace is not there exactly once
  mutants.py check NAME PROGRAM       runs the simulation that was linked with it; succeeds when a seed catches it
"""
import os
import pathlib
import re
import subprocess
import sys

CORE = "supervisor/core/"
MACHINE = "train/session/worker_machine.cc"
SEEDS = 8000  # the default run has 2,000: what takes several rare events shows in fewer than one in a thousand

# name: (file, text, replacement, checks that may catch it); several texts and replacements where the product checks twice
MUTANTS = {
    "stale_halted_counts": (
        CORE + "recovering.cc",
        "if (run.change.stage != Stage::kHalting || message.fence != run.recovery.fence) return;",
        "if (run.change.stage != Stage::kHalting) return;",
        {"only_who_answered", "holders_hold", "state_is_latest", "bit_identity", "behind_no_fence", "core_invariants"}),
    "rank_used_twice": (
        CORE + "pure/swap_plan.cc", "{from.worker, rank, on_host", "{from.worker, rank / 2, on_host",
        {"ranks_are_dense", "core_invariants"}),
    "late_holder_is_ended": (
        CORE + "recovering.cc", "if (!can_go_on_without_others(run) && wait_for_state(run)) return;", "",
        {"late_is_not_lost"}),
    "ledger_loses_an_entry": (
        CORE + "pure/ledger.cc", "    if (is_void(step.generation, step.step)) continue;\n    steps_",
        "    if (is_void(step.generation, step.step) || step.step % 16 == 7) continue;\n    steps_",
        {"ledger_agrees", "end_is_explained"}),
    "returned_samples_dropped": (
        "train/state/sampler.cc",
        "merge(slice(state.returned, reused, count_of(state.returned) - reused), uncounted);",
        "merge(slice(state.returned, reused, count_of(state.returned) - reused), uncounted.first(0));",
        {"exactly_once", "ledger_agrees"}),
    "donor_is_behind": (
        CORE + "run.cc",
        "if (!answer.has_state || !answer.in_loop || answer.committed_step != resume_step) return false;",
        "if (!answer.has_state || !answer.in_loop) return false;",
        {"holders_hold", "state_is_latest", "bit_identity", "core_invariants"}),
    "first_answer_decides": (
        CORE + "recovering.cc",
        "run.recovery.resume_step = std::max(run.recovery.resume_step, answer.committed_step);",
        "if (run.recovery.resume_step == 0) run.recovery.resume_step = answer.committed_step;",
        {"state_is_latest", "holders_hold", "one_surviving_history"}),
    "commit_before_all_prepared": (
        CORE + "changing.cc",
        ("  if (run.change.waiting.empty()) commit_change(run);",
         "  ET_CHECK(run.change.stage == Stage::kPreparing && run.change.waiting.empty(),\n"
         "           \"a change is committed when every worker is prepared\");\n"),
        ("  commit_change(run);", ""),
        {"commit_after_prepared", "core_invariants"}),
    "number_reused_after_cancel": (
        CORE + "changing.cc", "run.out.send(addressees(run), protocol::Cancel{run.change.generation});",
        "run.out.send(addressees(run), protocol::Cancel{run.change.generation});\n    --run.training.issued;",
        {"numbers_used_once", "core_invariants", "journal_fold"}),
    "recovery_without_an_answer": (
        CORE + "recovering.cc",
        "if (run.change.stage == Stage::kHalting && run.recovery.waiting.empty()) settle_halt(run);",
        "if (run.change.stage == Stage::kHalting && run.recovery.waiting.size() <= 1) {\n"
        "    for (WorkerId id : run.recovery.waiting) {\n"
        "      if (Worker* late = run.roster.worker(id); late != nullptr && !late->halted) late->halted.emplace();\n"
        "    }\n"
        "    settle_halt(run);\n"
        "  }",
        {"only_who_answered", "core_invariants", "state_is_latest", "holders_hold", "healthy_member_stays"}),
    "resume_forgets_a_number": (
        CORE + "agents.cc", "run.training.issued = event.issued;", "run.training.issued = event.generation;",
        {"numbers_used_once", "journal_fold"}),
    "drain_ends_with_its_supervisor": (
        CORE + "agents.cc", "for (const Resumed::AgentPlace& place : event.agents) {",
        "for (const Resumed::AgentPlace& place : event.agents) {\n    if (place.drained) continue;", {"drain_stays"}),
    "warm_process_in_a_taken_slot": (
        CORE + "hosts.cc", "      if (may_stay(run, agent, process)) return false;",
        "      if (run.settings.keeps_warm || may_stay(run, agent, process)) return false;", {"warm_is_alone"}),
    "checkpoint_fence_ignored": (
        "train/checkpoint/lineage.cc", "    if (!is_fenced_out(identity, lineage)) valid.push_back(identity);",
        "    valid.push_back(identity);", {"no_fenced_checkpoint", "newest_checkpoint"}),
    "goes_on_behind_its_fence": (
        MACHINE,
        ("  if (generation_ != 0 && generation_ <= fence_) effects_.emplace_back(AbortAssignment{});\n",
         "  if (assignment_is_void()) {\n    place_ = Place::kHalted;"),
        ("", "  if (false) {\n    place_ = Place::kHalted;"), {"behind_no_fence"}),
    "answer_before_settled": (
        MACHINE, "if (over_ || answered_ >= fence_ || !settled()) return;",
        "if (over_ || answered_ >= fence_) return;", {"answer_is_settled"}),
    "swap_before_commit": (
        MACHINE,
        "    return upcoming.ready() && !upcoming.dead && upcoming.plan.fence == 0 && "
        "upcoming.plan.previous == generation_;",
        "    return !upcoming.dead && upcoming.plan.fence == 0 && upcoming.plan.previous == generation_;",
        {"agreed_assignment", "assignment_after_commit"}),
    "behind_but_goes_on": (
        MACHINE, "const bool joins = found->plan.members[*found->rank].joiner;", "const bool joins = false;",
        {"bit_identity", "state_is_latest", "same_collective", "one_first_step", "no_step_is_skipped"}),
}


def make(name, root, out):
    file, text, replacement, _ = MUTANTS[name]
    source = (pathlib.Path(root) / file).read_text()
    texts, replacements = ((text,), (replacement,)) if isinstance(text, str) else (text, replacement)
    for old, new in zip(texts, replacements, strict=True):
        found = source.count(old)
        if found != 1:
            sys.exit(f"mutant {name}: the text to replace is {found} times in {file}, not once; bring mutants.py up to "
                     f"date:\n{old}")
        source = source.replace(old, new)
    pathlib.Path(out).write_text(source)


def check(name, program):
    run = subprocess.run([program], capture_output=True, text=True, errors="replace", timeout=280,
                         env={**os.environ, "ELASTICTRAIN_SEEDS": str(SEEDS)})
    asserted = re.search(r"internal error: (.*)", run.stderr)
    if run.returncode == 70 and asserted:
        print(f"mutant {name} is caught by an assertion: {asserted.group(1)}")
        return
    caught = re.search(r"^seed (\d+) breaks (\w+): (.*)$", run.stderr, re.M)
    if run.returncode == 0 or not caught:
        sys.exit(f"mutant {name} lives: none of {SEEDS} seeds breaks a check")
    seed, found, text = caught.groups()
    if found not in MUTANTS[name][3]:
        sys.exit(f"mutant {name}: seed {seed} breaks {found} ({text}), which does not name it")
    print(f"mutant {name} is caught by seed {seed}: {found}: {text}")


def main():
    command, arguments = sys.argv[1], sys.argv[2:]
    if command == "list":
        print(";".join(MUTANTS), end="")
    elif command == "source":
        print(MUTANTS[arguments[0]][0], end="")
    elif command == "make":
        make(*arguments)
    elif command == "check":
        check(*arguments)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
