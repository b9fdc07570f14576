// Purpose: makes every call of a session, to see which are refused where none should work.
//
// Thread: that of the session.
#pragma once

#include <string>

#include "elastictrain/session.hpp"

namespace elastictrain::test {

// Names of the calls that did not throw a SessionError, each followed by a space.
std::string calls_that_return(Session& session);

}  // namespace elastictrain::test
