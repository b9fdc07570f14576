// Purpose: the line that an agent prints on its standard output once it is connected to the supervisor. It tells the
// launcher that the launch has worked; other lines there (a login message) have no meaning. The agent's id follows it,
// for launches whose agents share one output.
#pragma once

namespace elastictrain::launcher {

inline constexpr const char* kConnectedLine = "elastictrain-agent: connected as ";

}  // namespace elastictrain::launcher
