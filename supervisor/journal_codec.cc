#include "supervisor/journal_codec.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <memory>

#include "supervisor/journal_values.h"
#include "supervisor/protocol/member_count.h"

namespace elastictrain {
namespace {

namespace record = core::record;
namespace values = journal_values;
using values::Json;
using Texts = std::vector<std::pair<std::string, std::string>>;

constexpr int kMaxRecordDepth = 8;  // of a view within a record

// --- What is done with a member of a type, wherever it is. Erased: 84 records have 20 types of members, and code for
// each field of each record costs the compiler 20 times as much.

template <class Member>
void append_member(Texts& out, std::string_view name, const void* member) {
  const Member& value = *static_cast<const Member*>(member);
  if constexpr (values::kIsOptional<Member>) {
    if (value) out.emplace_back(name, values::encode(*value));
  } else if constexpr (std::is_same_v<Member, record::NamedNumbers>) {
    for (const auto& [own_name, number] : value) out.emplace_back(own_name, real_json(number));
  } else {
    out.emplace_back(name, values::encode(value));
  }
}

template <class Member>
void decode_member(const Json& json, void* member) {
  if constexpr (!std::is_same_v<Member, record::NamedNumbers>) values::decode(json, *static_cast<Member*>(member));
}

struct MemberType {
  void (*append)(Texts& out, std::string_view name, const void* member);
  void (*decode)(const Json& json, void* member);
  std::string (*name)();
  bool optional;
  bool collects;  // the fields of other names
};
template <class Member>
constexpr MemberType kMemberType{&append_member<Member>, &decode_member<Member>, &values::type_name<Member>,
                                 values::kIsOptional<Member>, std::is_same_v<Member, record::NamedNumbers>};

// --- The table of all records, in the order of AllRecords

struct FieldEntry {
  std::string_view name;
  std::string_view old_name;
  std::uint32_t since = 1;
  std::size_t offset = 0;  // of the member in its record
  const MemberType* type = nullptr;
};

struct RecordEntry {
  record::RecordName names;
  std::vector<FieldEntry> fields;
  std::shared_ptr<void> (*make)();
};

struct CountFields {
  template <class... F>
  constexpr std::size_t operator()(const F&...) const {
    return sizeof...(F);
  }
};

template <class R>
struct AddFields {
  std::vector<FieldEntry>& fields;
  const R& place;

  template <class... F>
  void operator()(const F&... field) const {
    fields.reserve(sizeof...(F));
    (add(field), ...);
  }

 private:
  template <class Owner, class Member>
  void add(const record::Field<Owner, Member>& field) const {
    const auto offset = reinterpret_cast<const char*>(&(place.*field.member)) - reinterpret_cast<const char*>(&place);
    fields.push_back(
        {field.name, field.old_name, field.since_version, static_cast<std::size_t>(offset), &kMemberType<Member>});
  }
};

template <class R>
std::shared_ptr<void> make_record() {
  return std::make_shared<R>();
}

// A base class counts as one member of its own.
template <class R>
constexpr std::size_t members_of_record() {
  if constexpr (requires { typename R::Base; }) {
    return protocol::member_count<R>() - 1 + protocol::member_count<typename R::Base>();
  } else {
    return protocol::member_count<R>();
  }
}

template <class R>
RecordEntry entry_of() {
  constexpr const R* which = nullptr;
  static_assert(members_of_record<R>() == with_fields(which, CountFields()),
                "every member of a record must be in its field list");
  const R place{};
  RecordEntry entry{name_of_record(which), {}, &make_record<R>};
  with_fields(which, AddFields<R>{entry.fields, place});
  return entry;
}

template <class... R>
std::vector<RecordEntry> entries_of(record::RecordList<R...>) {
  return {entry_of<R>()...};
}

const std::vector<RecordEntry>& entries() {
  static const auto table = entries_of(record::AllRecords());
  return table;
}

const RecordEntry* entry_named(const std::string& event) {
  static const auto by_name = [] {
    std::map<std::string_view, const RecordEntry*> found;
    for (const RecordEntry& entry : entries()) {
      found.emplace(entry.names.event, &entry);
      if (!entry.names.old_event.empty()) found.emplace(entry.names.old_event, &entry);
    }
    return found;
  }();
  const auto found = by_name.find(event);
  return found == by_name.end() ? nullptr : found->second;
}

// --- From JSON

bool is_bookkeeping(std::string_view name) {
  return name == "event" || name == "seq" || name == "t" || name == "up";
}

bool is_known(std::string_view name, const RecordEntry& entry) {
  return is_bookkeeping(name) || std::any_of(entry.fields.begin(), entry.fields.end(),
                                             [&](const FieldEntry& field) { return field.name == name; });
}

// A number that is called like a field of its record would be read as that field.
void keep_apart(Texts& out, std::size_t first, const RecordEntry& entry) {
  for (; first < out.size(); ++first) {
    if (is_known(out[first].first, entry)) out[first].first += "_number";
  }
}

void collect_numbers(const Json& json, const RecordEntry& entry, record::NamedNumbers& numbers) {
  for (const auto& [name, value] : json.items()) {
    if (!is_known(name, entry) && value.is_number()) numbers.emplace_back(name, value.get<double>());
  }
}

const Json* find_field(const Json& json, const FieldEntry& field) {
  auto found = json.find(field.name);
  if (found == json.end() && !field.old_name.empty()) found = json.find(field.old_name);
  return found == json.end() ? nullptr : &*found;
}

core::Record read_record(const Json& json, const RecordEntry& entry) {
  std::shared_ptr<void> decoded = entry.make();
  char* const data = static_cast<char*>(decoded.get());
  for (const FieldEntry& field : entry.fields) {
    if (field.type->collects) {
      collect_numbers(json, entry, *reinterpret_cast<record::NamedNumbers*>(data + field.offset));
    } else if (const Json* found = find_field(json, field)) {
      field.type->decode(*found, data + field.offset);
    }
  }
  return {static_cast<std::size_t>(&entry - entries().data()), std::move(decoded)};
}

std::string fixed_microseconds(double seconds) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.6f", seconds);
  return text.data();
}

}  // namespace

std::string_view event_of(const core::Record& record) {
  return entries()[record.place()].names.event;
}

Texts fields_of(const core::Record& record) {
  Texts out;
  const char* const data = static_cast<const char*>(record.about());
  const RecordEntry& entry = entries()[record.place()];
  for (const FieldEntry& field : entry.fields) {
    const std::size_t first = out.size();
    field.type->append(out, field.name, data + field.offset);
    if (field.type->collects) keep_apart(out, first, entry);
  }
  return out;
}

std::string encode_journal_line(const core::Record& record, std::uint64_t sequence, double unix_s, double up_s) {
  std::string line = "{\"seq\":" + std::to_string(sequence) + ",\"t\":" + fixed_microseconds(unix_s);
  line += ",\"up\":" + fixed_microseconds(up_s) + ",\"event\":" + quoted_json(event_of(record));
  for (const auto& [name, value] : fields_of(record)) line += "," + quoted_json(name) + ":" + value;
  return line + "}";
}

std::optional<JournalLine> decode_journal_line(std::string_view line) {
  const Json json = parse_ordered_json(line, kMaxRecordDepth);
  if (!json.is_object() || !json.contains("event") || !json["event"].is_string()) return std::nullopt;
  JournalLine decoded;
  if (const auto found = json.find("t"); found != json.end()) values::decode(*found, decoded.unix_s);
  if (const auto found = json.find("up"); found != json.end()) values::decode(*found, decoded.up_s);
  const RecordEntry* entry = entry_named(json["event"].get_ref<const std::string&>());
  if (entry != nullptr) decoded.record = read_record(json, *entry);
  return decoded;
}

std::vector<RecordFormat> journal_format() {
  std::vector<RecordFormat> formats;
  for (const RecordEntry& entry : entries()) {
    RecordFormat& format = formats.emplace_back(RecordFormat{
        std::string(entry.names.event), std::string(entry.names.old_event), std::string(entry.names.meaning), {}});
    for (const FieldEntry& field : entry.fields) {
      format.fields.push_back({std::string(field.name), field.type->name(), field.type->optional, field.since,
                               std::string(field.old_name)});
    }
  }
  return formats;
}

}  // namespace elastictrain
