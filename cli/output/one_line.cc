#include "cli/output/one_line.h"

#include <string>
#include <utility>

#include "cli/output/printable.h"

namespace elastictrain::cli {

nlohmann::json in_one_line(nlohmann::json value) {
  if (value.is_string()) return printable(value.get_ref<const std::string&>(), Lines::kOne);
  if (value.is_structured()) {
    for (auto& part : value) part = in_one_line(std::move(part));
  }
  return value;
}

}  // namespace elastictrain::cli
