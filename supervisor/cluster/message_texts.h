// Purpose: the texts that the messages of a cluster may have, as rules for their fields (protocol/json_fields.h).
#pragma once

#include "supervisor/cluster/lease_protocol.h"
#include "supervisor/protocol/json_fields.h"

namespace elastictrain::cluster {

extern const json_fields::TextKind kNameKind, kHostNameKind, kTextKind, kLongTextKind;

inline constexpr json_fields::Rule kName = json_fields::text(kNameKind);  // 1 to kMaxNameBytes, printable
// They become words of command lines, of other users' too.
inline constexpr json_fields::Rule kHostName = json_fields::text(kHostNameKind);
// Missing: empty; at most kMaxTextBytes, printable. Longer and other ones are made so when they are written.
inline constexpr json_fields::Rule kText = json_fields::text(kTextKind).optional();
// Arguments and variables may be longer and hold any character but 0.
inline constexpr json_fields::Rule kLongText = json_fields::text(kLongTextKind);
inline constexpr std::size_t kMaxArguments = 4096;
inline constexpr std::size_t kMaxLongTextBytes = 128 * 1024;

inline constexpr json_fields::Rule kPriority = json_fields::within(-kMaxPriority, kMaxPriority);

}  // namespace elastictrain::cluster
