// Purpose: runs a story: a text whose lines that start with "> " are inputs to a state machine, and whose other lines
// are what comes out. Lines that start with '#' and blank lines are kept as they are.
//
// Inputs (workers are w1, agents a1; where several are named, each is one event):
//   settings start=2 min=1 max=4 spares=0 batch=32 limit=100 at_limit=stop rate=linear hosts_may_appear=1
//   hosts A:2 B:2 | up a1 | lost a1 REASON | silent a1 (no more heartbeats)
//   hello w1 | ready w1 (hello too where it is missing) | prepared w1 (or: all) | prepare-failed w1 REASON
//   ready-other w1 (with another state) | active w1 (or: all) | left w1 | finished w1 | exit w1 STATUS | killed w1
//   SIGNAL | spawn-failed w1 REASON resize 4 | replace 1 | replace-host A | drain A | stop
//   user|interrupt|preempted|time | stop-now wait 5s (timers that are due fire in their order) | view
#pragma once

#include <string>

namespace elastictrain::core {

// Returns the whole text with the outputs as they really are.
std::string play_story(const std::string& text);

}  // namespace elastictrain::core
