// Purpose: runs a scenario: a text whose lines that start with "> " are inputs to a state machine, and whose other
// lines are its outputs. Lines that start with '#' and blank lines are kept unchanged.
//
// Inputs (workers are w1, agents a1; where several are named, each is one event):
//   settings start=2 min=1 max=4 spares=0 batch=32 limit=100 at_limit=stop rate=linear hosts_may_appear=1
//            max_crashes=10 max_hangs=10 max_infrastructure=unlimited max_fruitless=3 window_s=3600
//            on_failure=replace checkpoints=0 leased=0 keep_warm=0
//   lease 3 A:0,1,3/4 B:2 (version 3: slots 0, 1 and 3 of four, and slot 2 of another host; without hosts: none;
//   "hold" at the end: stand still)
//   hosts A:2 B:2 | up a1 | lost a1 REASON (its process ended) | silent a1 (no more heartbeats)
//   broken a1 REASON (only the connection) | back a1 w1 w2 (with the workers that live) | notice a1 REASON
//   hello w1 | ready w1 (hello too where it is missing) | prepared w1 (or: all) | prepare-failed w1 REASON
//   ready-other w1 (with another state) | active w1 (or: all) | left w1 | finished w1 | exit w1 STATUS
//   killed w1 SIGNAL | oom w1 400 250 (a limit of so many MiB, of which it held so many) | spawn-failed w1 REASON
//   halted STEP w1 (or: all) | halted-behind STEP w1 (no complete state) | halted-starting w1
//   halts w1 REASON (by itself) | disagrees w1 REASON (the same: it sees what must be equal and is not)
//   declines w1 REASON (it cannot join) | finished-alone w1 (its program ended without the others) | stacks w1 LINE
//   at 210 1 w1 w2 (they are at step 210 in epoch 1, as their next heartbeats say)
//   steps 500 w1 w2 (they train from here on, with steps of so many ms, as their heartbeats say in every wait)
//   stands w1 reducing (it sits there and sleeps) | works w1 computing (the same, and uses CPU) | stops w1 (by signal)
//   resize 4 | replace 1 | replace-host A | drain A | undrain A | plan update w1=2 w2=0.5 | batch 64 | topology star |
//   train-by averaging | factor 2 | asks w1 workers=4 batch=64 factor=2 topology=star train-by=averaging (its program)
//   | warm a1 w2:1 (its processes that wait, with their slots; none: no word follows)
//   | stop user|interrupt|preempted|time|cancelled | stop-now (Ctrl-C) | stop-now user | wait 5s (timers that are due
//   fire in their order) | view resumed generation=3 issued=4 agents=A:2,B:2 workers=w1@a1:0,w2@a2:0 members=w1,w2
//   lineage=1@1,3@121 target=2
//           unsettled=w3 (or: unsettled=nobody) lease=7:2 (version:slots) only=0,2 (slots of the last agent's host)
//           left=w3 (of workers=) drained=a2 (its host, and it has ended) noticed=a2 (the same, by its own notice): the
//           first input of a story
#pragma once

#include <string>
#include <vector>

namespace elastictrain::core {

// Returns the whole text with the actual outputs. Sentences that a person reads are not in it: "<2>" is the second of
// `sentences`, which are in the order in which they first occur. So another wording changes no scenario.
std::string play_story(const std::string& text, std::vector<std::string>& sentences);

}  // namespace elastictrain::core
