// Purpose: the description of a journal record: its name, its meaning and its fields, in the order in which they are
// written. A field has the name of its member unless as() gives another; since() gives the schema version that
// introduced it, was() the name that it had before. A member of type std::optional is left out while it is empty.
//
// A record that has more members than its list does not compile: journal_codec.cc counts them. A record whose first
// members are those of a base class names it `Base`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace elastictrain::core::record {

// Version of the schema that this program writes; it reads all versions up to it.
inline constexpr std::uint32_t kSchemaVersion = 7;

struct RecordName {
  std::string_view event;
  std::string_view meaning;
  std::string_view old_event = {};  // before schema version 2
};

template <class Record, class Member>
struct Field {
  std::string_view name;
  Member Record::*member;
  std::string_view old_name = {};
  std::uint32_t since_version = 1;

  constexpr Field as(std::string_view other) const { return {other, member, old_name, since_version}; }
  constexpr Field was(std::string_view old) const { return {name, member, old, since_version}; }
  constexpr Field since(std::uint32_t version) const { return {name, member, old_name, version}; }
};
template <class Record, class Member>
Field(std::string_view, Member Record::*) -> Field<Record, Member>;

// A JSON value that the journal keeps as it is.
struct RawJson {
  std::string text;
  bool operator==(const RawJson&) const = default;
};

// Numbers whose names are not known here, written as fields of their own after all others.
using NamedNumbers = std::vector<std::pair<std::string, double>>;

// The records of a header, in the order of JOURNAL.md.
template <class... R>
struct RecordList {};

// ET_RECORD(Type, "event" or (RecordName), "meaning", ET_FIELD(first), ET_FIELD(second).since(2), …)
#define ET_FIELD(name) \
  Field {              \
#name, &R::name    \
  }  // braces: clang 14 knows no parentheses for aggregates
#define ET_RECORD(Type, event, meaning, ...) ET_RECORD_RENAMED(Type, (RecordName{event, meaning}), __VA_ARGS__)
#define ET_RECORD_RENAMED(Type, record_name, ...)                    \
  constexpr RecordName name_of_record(const Type*) {                 \
    return record_name;                                              \
  }                                                                  \
  template <class Visit>                                             \
  constexpr decltype(auto) with_fields(const Type*, Visit&& visit) { \
    using R [[maybe_unused]] = Type;                                 \
    return visit(__VA_ARGS__);                                       \
  }

}  // namespace elastictrain::core::record
