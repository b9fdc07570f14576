#include "train/builtin/data_load.h"

#include <algorithm>
#include <utility>

#include "train/builtin/data_formats.h"
#include "train/builtin/dataset.h"

namespace elastictrain::train {
namespace {

Result<LabelledRows> load_idx(const std::string& path, std::string_view images) {
  const std::optional<std::string> labels_path = idx_labels_path(path);
  if (!labels_path) {
    return Error{ErrorCode::kInvalid,
                 path +
                     ": the labels file is found by replacing 'images' in this name, which does not contain it; "
                     "name the files as in the MNIST family"};
  }
  const Result<std::string> labels = read_file(*labels_path);
  if (!labels) return labels.error();
  return parse_idx({images, path}, {*labels, *labels_path});
}

Result<LabelledRows> load_file(const std::string& path, DataFormat format) {
  const Result<std::string> bytes = read_file(path);
  if (!bytes) return bytes.error();
  if (format == DataFormat::kAuto) format = guess_format(*bytes, path);
  if (format == DataFormat::kIdx) return load_idx(path, *bytes);
  if (format == DataFormat::kCifar10) return parse_cifar10(*bytes, path);
  return parse_csv(*bytes, path);
}

Status append(LabelledRows& all, LabelledRows more, const std::string& path) {
  if (all.size() == 0) {
    all = std::move(more);
    return {};
  }
  if (all.features != more.features || all.bytes.empty() != more.bytes.empty()) {
    return Error{ErrorCode::kInvalid, path + ": has " + std::to_string(more.features) +
                                          " values per row and does not match the files before it (" +
                                          std::to_string(all.features) + ")"};
  }
  all.labels.insert(all.labels.end(), more.labels.begin(), more.labels.end());
  all.numbers.insert(all.numbers.end(), more.numbers.begin(), more.numbers.end());
  all.bytes.insert(all.bytes.end(), more.bytes.begin(), more.bytes.end());
  return {};
}

Result<LabelledRows> load_files(const std::string& paths, DataFormat format) {
  LabelledRows all;
  for (const std::string& path : split_paths(paths)) {
    Result<LabelledRows> rows = load_file(path, format);
    if (!rows) return rows.error();
    const Status appended = append(all, *std::move(rows), path);
    if (!appended) return appended.error();
  }
  return all;
}

Status check_test(const LabelledTask& task, const std::string& path) {
  if (task.test.size() == 0) return {};
  if (task.test.features != task.train.features) {
    return Error{ErrorCode::kInvalid, path + ": has " + std::to_string(task.test.features) +
                                          " values per row, but the training data has " +
                                          std::to_string(task.train.features)};
  }
  for (std::size_t row = 0; row < task.test.size(); ++row) {
    if (task.test.labels[row] >= task.classes) {
      return Error{ErrorCode::kInvalid,
                   path + ": row " + std::to_string(row + 1) + " has label " + std::to_string(task.test.labels[row]) +
                       ", but the training data has labels up to " + std::to_string(task.classes - 1)};
    }
  }
  return {};
}

Result<std::string> load_text(const std::string& paths) {
  std::string text;
  for (const std::string& path : split_paths(paths)) {
    const Result<std::string> bytes = read_file(path);
    if (!bytes) return bytes.error();
    text += *bytes;
  }
  return text;
}

}  // namespace

DataFormat guess_format(std::string_view bytes, std::string_view path) {
  const bool idx = bytes.size() >= 4 && bytes[0] == 0 && bytes[1] == 0;
  const bool gzip = bytes.size() >= 2 && bytes[0] == '\x1F' && bytes[1] == '\x8B';
  if (idx || gzip) return DataFormat::kIdx;
  return path.ends_with(".bin") ? DataFormat::kCifar10 : DataFormat::kCsv;
}

Result<LabelledTask> load_labelled_task(const TrainerOptions& options) {
  if (options.train.empty()) return generate_task(options.samples, options.seed);
  LabelledTask task;
  Result<LabelledRows> train = load_files(options.train, options.format);
  if (!train) return train.error();
  task.train = *std::move(train);
  Result<LabelledRows> test = load_files(options.test, options.format);
  if (!test) return test.error();
  task.test = *std::move(test);
  if (task.train.size() == 0) return Error{ErrorCode::kInvalid, options.train + ": contains no file name"};
  task.classes = *std::max_element(task.train.labels.begin(), task.train.labels.end()) + std::size_t{1};
  task.scaling = make_scaling(task.train);
  const Status checked = check_test(task, options.test);
  if (!checked) return checked.error();
  return task;
}

Result<TextTask> load_text_task(const TrainerOptions& options) {
  const Result<std::string> train = load_text(options.train);
  if (!train) return train.error();
  const Result<std::string> test = load_text(options.test);
  if (!test) return test.error();
  return make_text_task(*train, options.train, *test, options.test);
}

}  // namespace elastictrain::train
