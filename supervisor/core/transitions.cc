#include "supervisor/core/transitions.h"

#include <array>
#include <variant>

namespace elastictrain::core {
namespace {

constexpr Handling H = Handling::kHandle;
constexpr Handling R = Handling::kRefuse;
constexpr Handling I = Handling::kIgnore;

struct Row {
  const char* event;
  std::array<Handling, kPhases> phases;
};

// One row for each alternative of Event, in the same order.
// clang-format off
constexpr std::array<Row, std::variant_size_v<Event>> kRows{{
    //                      starting running changing stopping ended
    {"hosts_offered",        {{H,       H,      H,       I,       I}}},
    {"agent_connected",      {{H,       H,      H,       H,       I}}},
    {"agent_lost",           {{H,       H,      H,       H,       I}}},
    {"worker_spawn_failed",  {{H,       H,      H,       H,       I}}},
    {"worker_exited",        {{H,       H,      H,       H,       I}}},
    {"worker_said",          {{H,       H,      H,       H,       I}}},
    {"agent_reported",       {{H,       H,      H,       H,       I}}},
    {"resize",               {{H,       H,      H,       R,       R}}},
    {"replace_worker",       {{R,       H,      H,       R,       R}}},
    {"replace_host",         {{R,       H,      H,       R,       R}}},
    {"drain_host",           {{H,       H,      H,       R,       R}}},
    {"stop",                 {{H,       H,      H,       H,       R}}},
    {"stop_now",             {{H,       H,      H,       H,       I}}},
    {"timer_fired",          {{H,       H,      H,       H,       I}}},
    {"host_noticed",         {{H,       H,      H,       I,       I}}},
    {"agent_answered",       {{H,       H,      H,       H,       I}}},
    {"resumed",              {{H,       I,      I,       I,       I}}},
    {"reshare",              {{H,       H,      H,       R,       R}}},
}};

// Row: phase before the step; column: phase after it. A run that lost all its state starts again.
constexpr std::array<std::array<bool, kPhases>, kPhases> kMayFollow{{
    //             starting running changing stopping ended
    /*starting*/ {{true,    true,   true,    true,    true}},
    /*running*/  {{true,    true,   true,    true,    true}},
    /*changing*/ {{true,    true,   true,    true,    true}},
    /*stopping*/ {{false,   false,  false,   true,    true}},
    /*ended*/    {{false,   false,  false,   false,   true}},
}};
// clang-format on

constexpr std::array<const char*, kPhases> kPhaseNames{{"starting", "running", "changing", "stopping", "ended"}};

}  // namespace

const char* name_of(const Event& event) {
  return kRows[event.index()].event;
}

const char* name_of(RunPhase phase) {
  return kPhaseNames[static_cast<std::size_t>(phase)];
}

Handling handling(RunPhase phase, const Event& event) {
  return kRows[event.index()].phases[static_cast<std::size_t>(phase)];
}

bool may_follow(RunPhase from, RunPhase to) {
  return kMayFollow[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
}

}  // namespace elastictrain::core
