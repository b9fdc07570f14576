#include "supervisor/core/pure/transitions.h"

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
    //                       starting resuming training changing halted below_min recovering ending ended
    {"hosts_offered",        {{H,       H,       H,       H,       H,     H,        H,         I,     I}}},
    {"agent_connected",      {{H,       H,       H,       H,       H,     H,        H,         H,     I}}},
    {"agent_lost",           {{H,       H,       H,       H,       H,     H,        H,         H,     I}}},
    {"worker_spawn_failed",  {{H,       H,       H,       H,       H,     H,        H,         H,     I}}},
    {"worker_exited",        {{H,       H,       H,       H,       H,     H,        H,         H,     I}}},
    {"worker_message",       {{H,       H,       H,       H,       H,     H,        H,         H,     I}}},
    {"agent_reported",       {{H,       H,       H,       H,       H,     H,        H,         H,     I}}},
    {"resize",               {{H,       H,       H,       H,       H,     H,        H,         R,     R}}},
    {"replace_worker",       {{R,       H,       H,       H,       H,     H,        H,         R,     R}}},
    {"replace_host",         {{R,       H,       H,       H,       H,     H,        H,         R,     R}}},
    {"drain_host",           {{H,       H,       H,       H,       H,     H,        H,         R,     R}}},
    {"undrain_host",         {{H,       H,       H,       H,       H,     H,        H,         R,     R}}},
    {"stop",                 {{H,       H,       H,       H,       H,     H,        H,         H,     R}}},
    {"stop_now",             {{H,       H,       H,       H,       H,     H,        H,         H,     I}}},
    {"timer_fired",          {{H,       H,       H,       H,       H,     H,        H,         H,     I}}},
    {"host_noticed",         {{H,       H,       H,       H,       H,     H,        H,         I,     I}}},
    {"agent_answered",       {{H,       H,       H,       H,       H,     H,        H,         H,     I}}},
    {"resumed",              {{H,       I,       I,       I,       I,     I,        I,         I,     I}}},
    {"update_plan",          {{H,       H,       H,       H,       H,     H,        H,         R,     R}}},
    {"lease_given",          {{H,       H,       H,       H,       H,     H,        H,         I,     I}}},
    {"warm_reported",        {{H,       H,       H,       H,       H,     H,        H,         H,     I}}},
}};

// Row: phase before the step; column: phase after it. A run that lost all its state starts again. What follows a loss
// begins with a halt, and no generation trains before it was built.
constexpr std::array<std::array<bool, kPhases>, kPhases> kMayFollow{{
    //              starting resuming training changing halted below_min recovering ending ended
    /*starting*/    {{true,    true,    true,    true,    true,  true,     true,      true,  true}},
    /*resuming*/    {{true,    true,    true,    true,    true,  true,     true,      true,  true}},
    /*training*/    {{true,    false,   true,    true,    true,  false,    false,     true,  true}},
    /*changing*/    {{true,    false,   true,    true,    true,  false,    false,     true,  true}},
    /*halted*/      {{true,    false,   false,   false,   true,  true,     true,      true,  true}},
    /*below_min*/   {{true,    false,   false,   false,   false, true,     true,      true,  true}},
    /*recovering*/  {{true,    false,   true,    true,    true,  true,     true,      true,  true}},
    /*ending*/      {{false,   false,   false,   false,   false, false,    false,     true,  true}},
    /*ended*/       {{false,   false,   false,   false,   false, false,    false,     false, true}},
}};
// clang-format on

constexpr std::array<const char*, kPhases> kPhaseNames{
    {"starting", "resuming", "training", "changing", "halted", "below_min", "recovering", "ending", "ended"}};
constexpr std::array<const char*, 5> kShownPhaseNames{{"starting", "running", "changing", "stopping", "ended"}};
// As `status` shows them.
constexpr std::array<const char*, 9> kAgentPhaseNames{
    {"launching", "up", "suspect", "reconnecting", "draining", "drained", "left", "cooling", "lost"}};

}  // namespace

const char* name_of(const Event& event) {
  return kRows[event.index()].event;
}

const char* name_of(Phase phase) {
  return kPhaseNames[static_cast<std::size_t>(phase)];
}

const char* name_of(RunPhase phase) {
  return kShownPhaseNames[static_cast<std::size_t>(phase)];
}

const char* name_of(AgentPhase phase) {
  return kAgentPhaseNames[static_cast<std::size_t>(phase)];
}

Handling handling(Phase phase, const Event& event) {
  return kRows[event.index()].phases[static_cast<std::size_t>(phase)];
}

bool may_follow(Phase from, Phase to) {
  return kMayFollow[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
}

}  // namespace elastictrain::core
