#include "supervisor/core/action.h"

#include <utility>

namespace elastictrain::core {

Journal::Journal(Record of, bool with_sync) : record(std::move(of)), sync(with_sync) {}
Journal::Journal(Journal&& other) noexcept = default;
Journal::~Journal() = default;

}  // namespace elastictrain::core
