// Purpose: every record of a run's journal, as the state machine and the edge write it and as a later supervisor reads
// it. Plain data; supervisor/journal_codec.h turns it into JSON, and supervisor/JOURNAL.md lists it. Ids, generations,
// steps and units are those of the messages; durations are in milliseconds, and their names say so.
//
// A field is appended, never reused for another purpose. It then has since() the next schema version, and so has a
// field that gets another name, with was() its old one.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

#include "supervisor/core/pure/records/change.h"
#include "supervisor/core/pure/records/failures.h"
#include "supervisor/core/pure/records/hosts.h"
#include "supervisor/core/pure/records/requests.h"
#include "supervisor/core/pure/records/run.h"
#include "supervisor/core/pure/records/workers.h"

namespace elastictrain::core {

namespace record {

template <class... R>
RecordList<R...> joined(RecordList<R...>);
template <class... First, class... Second, class... Rest>
auto joined(RecordList<First...>, RecordList<Second...>, Rest... rest) {
  return joined(RecordList<First..., Second...>(), rest...);
}
using AllRecords =
    decltype(joined(RunRecords(), HostRecords(), WorkerRecords(), RequestRecords(), ChangeRecords(), FailureRecords()));

// The place of R in the list; its length: R is not in it.
template <class R, class... All>
constexpr std::size_t place_in(RecordList<All...>) {
  std::size_t place = 0;
  (void)((std::is_same_v<R, All> || (++place, false)) || ...);
  return place;
}
template <class... All>
constexpr std::size_t length_of(RecordList<All...>) {
  return sizeof...(All);
}
template <class R>
inline constexpr std::size_t kPlace = place_in<R>(AllRecords());
template <class R>
concept IsRecord = kPlace<R> < length_of(AllRecords());

}  // namespace record

// A record of any kind. Its content is shared and never changes, so copies are cheap; and unlike a variant of 84 types,
// it costs a file that only passes it on no time to compile.
class Record {
 public:
  template <record::IsRecord R>
  Record(R about) : Record(record::kPlace<R>, std::make_shared<const R>(std::move(about))) {}
  // `about` is of the kind at that place of AllRecords.
  Record(std::size_t place, std::shared_ptr<const void> about) : place_(place), about_(std::move(about)) {}

  std::size_t place() const { return place_; }
  const void* about() const { return about_.get(); }
  template <record::IsRecord R>
  bool is() const {
    return place_ == record::kPlace<R>;
  }
  // Nullptr: it is of another kind. The content lives as long as the record or a copy.
  template <record::IsRecord R>
  const R* as() const& {
    return is<R>() ? static_cast<const R*>(about_.get()) : nullptr;
  }
  template <record::IsRecord R>
  const R* as() const&& = delete;

  // use(const R&) for the R that it is.
  template <class Use>
  void visit(Use&& use) const {
    visit_in(use, record::AllRecords());
  }

 private:
  template <class Use, class... R>
  void visit_in(Use& use, record::RecordList<R...>) const {
    std::size_t place = 0;
    (void)((place++ == place_ && (use(*static_cast<const R*>(about_.get())), true)) || ...);
  }

  std::size_t place_;
  std::shared_ptr<const void> about_;
};

}  // namespace elastictrain::core
