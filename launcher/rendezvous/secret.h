// Purpose: the secret that all commands of one run share where nobody starts agents by ssh: from the environment, from
// a file, or from a file in the state directory that the first command makes. The key of a connection is derived from
// it and from the run's name, so the secret itself is never sent. Thread: any one. Errors: a file that is missing,
// empty, too short or not private, with its path and what to do.
#pragma once

#include <string>
#include <string_view>

#include "supervisor/protocol/result.h"
#include "supervisor/transport/frame_connection.h"

namespace elastictrain::launcher {

inline constexpr const char* kSecretVariable = "ELASTICTRAIN_SECRET";

// How many bits of chance a secret may have been made of, at most: words, sequences and repetitions count little. Pure.
double estimated_bits(std::string_view secret);
// kInvalid, with the command that makes a good one: whoever reaches an endpoint can try secrets, also afterwards with
// what they have recorded.
Status check_secret(const std::string& secret);

// Taken out of the environment, so that no worker inherits it. Empty: there is none.
std::string take_secret_variable();

// The content of a private file, without the end of its last line.
Result<std::string> read_secret(const std::string& path);
// The same; where there is no such file, it is made, with 32 random bytes as text, in a directory of mode 0700.
Result<std::string> read_or_make_secret(const std::string& path);

transport::Key rendezvous_key(const std::string& secret, const std::string& run_name);

}  // namespace elastictrain::launcher
