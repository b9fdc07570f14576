#include "train/builtin/model.h"

#include <string>

#include "train/builtin/data_load.h"
#include "train/builtin/dense_models.h"
#include "train/builtin/model_synthetic.h"

namespace elastictrain::train {
namespace {

Result<std::unique_ptr<Model>> make_mlp(const TrainerOptions& options) {
  Result<LabelledTask> task = load_labelled_task(options);
  if (!task) return task.error();
  return std::unique_ptr<Model>(std::make_unique<MlpModel>(*std::move(task), options.hidden, options.seed));
}

Result<std::unique_ptr<Model>> make_char_lm(const TrainerOptions& options) {
  Result<TextTask> task = load_text_task(options);
  if (!task) return task.error();
  const std::size_t min = options.context + kCharactersPerSample;
  if (task->train.size() < min) {
    return Error{ErrorCode::kInvalid, options.train + ": " + std::to_string(task->train.size()) +
                                          " characters to train on, at least " + std::to_string(min) +
                                          " are needed; use a longer text or a smaller context"};
  }
  CharLmModel::Shape shape{options.context, options.embedding, options.hidden};
  return std::unique_ptr<Model>(std::make_unique<CharLmModel>(*std::move(task), std::move(shape), options.seed));
}

}  // namespace

Result<std::unique_ptr<Model>> make_model(const TrainerOptions& options) {
  switch (options.model) {
    case ModelKind::kMlp:
      return make_mlp(options);
    case ModelKind::kCharLm:
      return make_char_lm(options);
    case ModelKind::kSynthetic:
      return std::unique_ptr<Model>(std::make_unique<SyntheticModel>(options));
  }
  panic("model kind without a model");
}

}  // namespace elastictrain::train
