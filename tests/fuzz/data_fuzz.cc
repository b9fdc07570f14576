// Data files with any content. The first byte selects the reader; IDX pairs are split at the place given by the second
// byte.
#include <cstdint>
#include <string_view>

#include "tests/fuzz/check.h"
#include "train/builtin/data_formats.h"
#include "train/builtin/data_load.h"
#include "train/builtin/dataset.h"

namespace {

using namespace elastictrain;

void look(const Result<train::LabelledRows>& rows) {
  if (!rows) return fuzz::check(!rows.error().message.empty(), "a file is refused without a word");
  fuzz::check(rows->size() > 0 && rows->features > 0, "a file without data was accepted");
  const std::size_t values = rows->bytes.empty() ? rows->numbers.size() : rows->bytes.size();
  fuzz::check(values == rows->size() * rows->features, "rows of unequal length were accepted");
  const train::Scaling scaling = train::make_scaling(*rows);
  std::vector<float> row(rows->features);
  for (std::size_t i = 0; i < rows->size(); ++i) train::copy_scaled_row(*rows, scaling, i, row.data());
}

void look(const Result<train::TextTask>& task) {
  if (!task) return;
  for (const auto* text : {&task->train, &task->test}) {
    for (const std::uint8_t index : *text) fuzz::check(index < task->vocabulary, "a character outside the vocabulary");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::size_t part = std::min<std::size_t>(data[1], bytes.size());
  (void)train::guess_format(bytes, "file");
  switch (data[0] % 4) {
    case 0:
      look(train::parse_csv(bytes, "file.csv"));
      break;
    case 1:
      look(train::parse_idx({bytes.substr(part), "images"}, {bytes.substr(0, part), "labels"}));
      break;
    case 2:
      look(train::parse_cifar10(bytes, "file.bin"));
      break;
    default:
      look(train::make_text_task(bytes.substr(part), "train", bytes.substr(0, part), "test"));
      break;
  }
  return 0;
}
