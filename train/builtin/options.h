// Purpose: the options of the built-in trainer, as one struct and one table of its fields. The flag parser, the config
// reader and the launcher's argument list all use the table, so a new option is one row.
//
// For the command line and the config:
//   TrainerOptions options;
//   for (const TrainerField& field : trainer_fields())
//     // flag: flag_name(field), e.g. "--learning-rate"; TOML key: field.name, e.g. learning_rate
//     Status set = field.set(options, text);   // text as typed; a list is "128,64"
//   Status whole = validate(options);          // checks that need several fields
//   std::vector<std::string> argv = to_arguments(options);  // "--model=mlp" …; only what differs from the default
//
// Messages of set() list the allowed values. They do not name the source of the value: the caller adds it (flag, or
// file and line).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "supervisor/protocol/result.h"

namespace elastictrain::train {

enum class ModelKind { kMlp, kCharLm, kSynthetic };
enum class DataFormat { kAuto, kCsv, kIdx, kCifar10, kText, kGenerated };
enum class OptimizerKind { kAuto, kSgd, kAdam };
enum class ComputeKind { kSleep, kSpin };
enum class DeviceChoice { kCpu, kCuda, kAuto };
enum class GradientKind { kSamples, kConstant };

// One worker that computes more slowly than the others: its compute time is multiplied by the factor.
struct SlowWorker {
  std::uint64_t worker_id = 0;
  double factor = 1;
};

// What an exchange takes beyond the real one with this number of workers.
struct ExchangeTime {
  std::uint32_t workers = 1;
  std::uint64_t time_us = 0;
};

struct TrainerOptions {
  ModelKind model = ModelKind::kMlp;

  // Data. Paths may name several files, separated by commas (the batches of CIFAR-10). IDX labels are expected next to
  // the images ("…images-idx3-ubyte" -> "…labels-idx1-ubyte"). Without `train` the mlp uses generated data.
  std::string train;
  std::string test;
  DataFormat format = DataFormat::kAuto;
  std::uint64_t samples = 8192;  // of an epoch, generated data and synthetic model

  // Model.
  std::vector<std::uint32_t> hidden = {128};
  std::uint32_t context = 10;    // char_lm: characters that a prediction sees
  std::uint32_t embedding = 16;  // char_lm: numbers per character

  // Optimizer.
  OptimizerKind optimizer = OptimizerKind::kAuto;  // sgd for mlp and synthetic, adam for char_lm
  double learning_rate = 0;                        // 0: 0.1 with sgd, 0.003 with adam
  double momentum = 0.9;
  double weight_decay = 0;

  // Length of the run.
  std::uint64_t epochs = 20;
  std::uint64_t max_steps = 0;  // 0: after the epochs
  std::uint64_t seed = 1;
  std::uint32_t batch = 32;  // per worker; batch.per_worker of the run counts before it
  std::uint64_t eval_every_epochs = 1;
  std::uint64_t log_every_steps = 0;

  // Device.
  DeviceChoice device = DeviceChoice::kCpu;

  // Synthetic model.
  std::uint64_t compute_us_per_sample = 1000;
  ComputeKind compute = ComputeKind::kSleep;
  double jitter = 0;
  std::uint64_t parameter_bytes = 4'000'000;
  std::uint32_t buckets = 4;
  GradientKind gradient = GradientKind::kSamples;
  std::vector<SlowWorker> slow;
  std::vector<ExchangeTime> exchange_us;  // by workers, ascending; linear in between, constant beyond
  std::uint64_t startup_delay_ms = 0;
};

enum class FieldType { kText, kInteger, kNumber, kList };

struct TrainerField {
  std::string_view name;  // as in the config: lower case with underscores
  FieldType type;         // what a config value must be; a kList is an array or text with commas
  std::string_view unit;  // "" if there is none
  std::string_view help;  // one line, with the allowed values
  Status (*set)(TrainerOptions& options, std::string_view text);
  std::string (*get)(const TrainerOptions& options);  // set() of it gives the same value
  std::string (*allowed)();                           // values: "1 to 65536", "mlp, char_lm, synthetic"; "": any
};

std::span<const TrainerField> trainer_fields();

// "--learning-rate" for "learning_rate".
std::string flag_name(const TrainerField& field);

// Checks that need more than one field.
Status validate(const TrainerOptions& options);

// Arguments for `elastictrain worker`, one "--name=value" each, for the fields that differ from their default.
std::vector<std::string> to_arguments(const TrainerOptions& options);

// The optimizer and learning rate that kAuto and 0 select.
OptimizerKind effective_optimizer(const TrainerOptions& options);
double effective_learning_rate(const TrainerOptions& options);
// The synthetic model with optimizer kAuto has no state besides its parameters, so momentum is 0 there.
double effective_momentum(const TrainerOptions& options);

}  // namespace elastictrain::train
