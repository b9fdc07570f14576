// Purpose: every record of a run's journal, as the state machine and the edge write it and as a later supervisor reads
// it. Plain data; supervisor/journal_codec.h turns it into JSON, and supervisor/JOURNAL.md lists it. Ids, generations,
// steps and units are those of the messages; durations are in milliseconds, and their names say so.
//
// A field is appended, never reused for another purpose. It then has since() the next schema version, and so has a
// field that gets another name, with was() its old one.
#pragma once

#include <variant>

#include "supervisor/core/pure/records/change.h"
#include "supervisor/core/pure/records/failures.h"
#include "supervisor/core/pure/records/hosts.h"
#include "supervisor/core/pure/records/requests.h"
#include "supervisor/core/pure/records/run.h"
#include "supervisor/core/pure/records/workers.h"

namespace elastictrain::core {

namespace record {

template <class... R>
std::variant<R...> variant_of(RecordList<R...>);
template <class... First, class... Second, class... Rest>
auto variant_of(RecordList<First...>, RecordList<Second...>, Rest... rest) {
  return variant_of(RecordList<First..., Second...>(), rest...);
}

}  // namespace record

using Record =
    decltype(record::variant_of(record::RunRecords(), record::HostRecords(), record::WorkerRecords(),
                                record::RequestRecords(), record::ChangeRecords(), record::FailureRecords()));

}  // namespace elastictrain::core
