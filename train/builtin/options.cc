#include "train/builtin/options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

namespace elastictrain::train {
namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kMaxSamples = 1'000'000'000;
constexpr std::uint64_t kMaxExchange_us = 3'600'000'000;
constexpr std::uint64_t kMaxParameterBytes = 64ULL << 30;

Error invalid(std::string message) {
  return Error{ErrorCode::kInvalid, std::move(message)};
}

template <class T>
std::string number_text(T value) {
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

template <class T>
bool parse_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

std::vector<std::string_view> split_list(std::string_view text) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::string_view part = text.substr(0, comma);
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
    parts.push_back(part);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return parts;
}

void append_to_list(std::string& list, const std::string& part) {
  if (!list.empty()) list += ",";
  list += part;
}

// --- Setters and getters, one pair for each kind of member -----------------------------------------------------------

template <auto Member>
Status set_text(TrainerOptions& options, std::string_view text) {
  options.*Member = std::string(text);
  return {};
}

template <auto Member>
std::string get_text(const TrainerOptions& options) {
  return options.*Member;
}

std::string any_text() {
  return "";
}

template <std::uint64_t Min, std::uint64_t Max>
std::string integer_range() {
  return number_text(Min) + (Max == kNoLimit ? " or more" : " to " + number_text(Max));
}

template <auto Member, std::uint64_t Min, std::uint64_t Max>
Status set_integer(TrainerOptions& options, std::string_view text) {
  std::uint64_t value = 0;
  if (!parse_number(text, value) || value < Min || value > Max) {
    return invalid("'" + std::string(text) + "' is not a whole number of " + integer_range<Min, Max>());
  }
  using Integer = std::remove_reference_t<decltype(options.*Member)>;
  options.*Member = static_cast<Integer>(value);
  return {};
}

// `Below` is the first value above the range.
template <int Min, int Below>
std::string number_range() {
  return number_text(Min) + " to below " + number_text(Below);
}

template <auto Member, int Min, int Below>
Status set_number(TrainerOptions& options, std::string_view text) {
  double value = 0;
  if (!parse_number(text, value) || !(value >= Min && value < Below)) {
    return invalid("'" + std::string(text) + "' is not a number from " + number_range<Min, Below>());
  }
  options.*Member = value;
  return {};
}

template <auto Member>
std::string get_number(const TrainerOptions& options) {
  return number_text(options.*Member);
}

template <class Enum>
using Names = std::span<const std::pair<std::string_view, Enum>>;

constexpr std::pair<std::string_view, ModelKind> kModelNames[] = {
    {"mlp", ModelKind::kMlp}, {"char_lm", ModelKind::kCharLm}, {"synthetic", ModelKind::kSynthetic}};
constexpr std::pair<std::string_view, DataFormat> kFormatNames[] = {
    {"auto", DataFormat::kAuto},       {"csv", DataFormat::kCsv},   {"idx", DataFormat::kIdx},
    {"cifar10", DataFormat::kCifar10}, {"text", DataFormat::kText}, {"generated", DataFormat::kGenerated}};
constexpr std::pair<std::string_view, OptimizerKind> kOptimizerNames[] = {
    {"auto", OptimizerKind::kAuto}, {"sgd", OptimizerKind::kSgd}, {"adam", OptimizerKind::kAdam}};
constexpr std::pair<std::string_view, ComputeKind> kComputeNames[] = {{"sleep", ComputeKind::kSleep},
                                                                      {"spin", ComputeKind::kSpin}};
constexpr std::pair<std::string_view, DeviceChoice> kDeviceNames[] = {
    {"cpu", DeviceChoice::kCpu}, {"cuda", DeviceChoice::kCuda}, {"auto", DeviceChoice::kAuto}};
constexpr std::pair<std::string_view, GradientKind> kGradientNames[] = {{"samples", GradientKind::kSamples},
                                                                        {"constant", GradientKind::kConstant}};

template <const auto& Table>
std::string choice_names() {
  std::string names;
  for (const auto& [name, value] : Table) names += (names.empty() ? "" : ", ") + std::string(name);
  return names;
}

template <auto Member, const auto& Table>
Status set_choice(TrainerOptions& options, std::string_view text) {
  for (const auto& [name, value] : Table) {
    if (name == text) {
      options.*Member = value;
      return {};
    }
  }
  return invalid("'" + std::string(text) + "' is not one of: " + choice_names<Table>());
}

template <auto Member, const auto& Table>
std::string get_choice(const TrainerOptions& options) {
  for (const auto& [name, value] : Table) {
    if (value == options.*Member) return std::string(name);
  }
  panic("option without a name");
}

Status set_hidden(TrainerOptions& options, std::string_view text) {
  std::vector<std::uint32_t> sizes;
  for (const std::string_view part : split_list(text)) {
    std::uint32_t size = 0;
    if (!parse_number(part, size) || size < 1 || size > 65536) {
      return invalid("'" + std::string(part) + "' is not a layer size of 1 to 65536; write sizes as 128,64");
    }
    sizes.push_back(size);
  }
  options.hidden = std::move(sizes);
  return {};
}

std::string get_hidden(const TrainerOptions& options) {
  std::string text;
  for (const std::uint32_t size : options.hidden) append_to_list(text, number_text(size));
  return text;
}

Status set_slow(TrainerOptions& options, std::string_view text) {
  std::vector<SlowWorker> slow;
  for (const std::string_view part : split_list(text)) {
    const std::size_t colon = std::min(part.find(':'), part.size());
    SlowWorker entry;
    const bool good = colon < part.size() && parse_number(part.substr(0, colon), entry.worker_id) &&
                      parse_number(part.substr(colon + 1), entry.factor) && entry.factor > 0 && entry.factor <= 1000;
    if (!good) {
      return invalid("'" + std::string(part) + "' is not WORKER:FACTOR with a factor above 0 up to 1000; write 3:2.5");
    }
    slow.push_back(entry);
  }
  options.slow = std::move(slow);
  return {};
}

std::string get_slow(const TrainerOptions& options) {
  std::string text;
  for (const SlowWorker& entry : options.slow) {
    append_to_list(text, number_text(entry.worker_id) + ":" + number_text(entry.factor));
  }
  return text;
}

Status set_exchange(TrainerOptions& options, std::string_view text) {
  std::vector<ExchangeTime> times;
  for (const std::string_view part : split_list(text)) {
    const std::size_t colon = std::min(part.find(':'), part.size());
    ExchangeTime entry;
    const bool good = colon < part.size() && parse_number(part.substr(0, colon), entry.workers) &&
                      parse_number(part.substr(colon + 1), entry.time_us) && entry.time_us <= kMaxExchange_us &&
                      entry.workers > (times.empty() ? 0 : times.back().workers);
    if (!good) {
      return invalid("'" + std::string(part) +
                     "' is not WORKERS:MICROSECONDS with more workers than before and at most an hour; write "
                     "1:0,4:20000");
    }
    times.push_back(entry);
  }
  options.exchange_us = std::move(times);
  return {};
}

std::string get_exchange(const TrainerOptions& options) {
  std::string text;
  for (const ExchangeTime& entry : options.exchange_us) {
    append_to_list(text, number_text(entry.workers) + ":" + number_text(entry.time_us));
  }
  return text;
}

// --- The table -------------------------------------------------------------------------------------------------------

using O = TrainerOptions;

template <auto Member>
constexpr TrainerField text_field(std::string_view name, std::string_view help) {
  return {name, FieldType::kText, "", help, set_text<Member>, get_text<Member>, any_text};
}

template <auto Member, const auto& Table>
constexpr TrainerField choice_field(std::string_view name, std::string_view help) {
  return {name, FieldType::kText, "", help, set_choice<Member, Table>, get_choice<Member, Table>, choice_names<Table>};
}

template <auto Member, std::uint64_t Min, std::uint64_t Max>
constexpr TrainerField integer_field(std::string_view name, std::string_view unit, std::string_view help) {
  return {name,
          FieldType::kInteger,
          unit,
          help,
          set_integer<Member, Min, Max>,
          get_number<Member>,
          integer_range<Min, Max>};
}

template <auto Member, int Min, int Below>
constexpr TrainerField number_field(std::string_view name, std::string_view help) {
  return {
      name, FieldType::kNumber, "", help, set_number<Member, Min, Below>, get_number<Member>, number_range<Min, Below>};
}

constexpr TrainerField kFields[] = {
    choice_field<&O::model, kModelNames>("model", "model to train"),
    text_field<&O::train>("train", "training data: one file, or several separated by commas; default: generated data"),
    text_field<&O::test>("test", "held-out data in the same format"),
    choice_field<&O::format, kFormatNames>("format", "format of the data"),
    integer_field<&O::samples, 1, kMaxSamples>("samples", "samples", "size of an epoch of generated or synthetic data"),
    {"hidden", FieldType::kList, "neurons", "sizes of the hidden layers, for example 128,64", set_hidden, get_hidden,
     [] { return std::string("1 to 65536 each"); }},
    integer_field<&O::context, 1, 1024>("context", "characters", "char_lm: characters that a prediction sees"),
    integer_field<&O::embedding, 1, 1024>("embedding", "numbers", "char_lm: size of a character's embedding"),
    choice_field<&O::optimizer, kOptimizerNames>("optimizer", "optimizer; auto: adam for char_lm, else sgd"),
    number_field<&O::learning_rate, 0, 1000>("learning_rate", "learning rate; 0: 0.1 with sgd, 0.003 with adam"),
    number_field<&O::momentum, 0, 1>("momentum", "momentum of sgd"),
    number_field<&O::weight_decay, 0, 1>("weight_decay", "share of each parameter that is added to its gradient"),
    integer_field<&O::epochs, 1, 1'000'000>("epochs", "epochs", "passes over the training data"),
    integer_field<&O::max_steps, 0, kNoLimit>("max_steps", "steps",
                                              "maximum number of steps; 0: until the end of the epochs"),
    integer_field<&O::seed, 0, kNoLimit>("seed", "",
                                         "seed of the shuffle, the initial parameters and the generated data"),
    integer_field<&O::batch, 1, 1'000'000>("batch", "samples",
                                           "samples of a worker in a step, for a worker that no run started"),
    integer_field<&O::eval_every_epochs, 0, 1'000'000>(
        "eval_every_epochs", "epochs", "epochs between two evaluations on held-out data; 0: only at the end"),
    integer_field<&O::log_every_steps, 0, kNoLimit>(
        "log_every_steps", "steps", "steps between two lines with the loss from rank 0; 0: one line per epoch"),
    choice_field<&O::device, kDeviceNames>("device",
                                           "device; auto: cuda where a GPU and its libraries are found, else cpu"),
    integer_field<&O::compute_us_per_sample, 0, 3'600'000'000>("compute_us_per_sample", "microseconds",
                                                               "synthetic: compute time of one sample"),
    choice_field<&O::compute, kComputeNames>("compute",
                                             "synthetic: how to spend the compute time; sleep leaves the core free"),
    number_field<&O::jitter, 0, 1>("jitter", "synthetic: maximum relative variation of the compute time"),
    integer_field<&O::parameter_bytes, 4, kMaxParameterBytes>("parameter_bytes", "bytes",
                                                              "synthetic: size of the float32 parameters"),
    integer_field<&O::buckets, 1, 4096>("buckets", "buckets",
                                        "synthetic: number of pieces in which gradients are reduced"),
    choice_field<&O::gradient, kGradientNames>(
        "gradient",
        "synthetic: samples: a function of the samples and the parameters; constant: "
        "filled once, cheapest"),
    {"slow", FieldType::kList, "", "synthetic: factors of the compute time by worker id, for example 3:2.5,4:1.5",
     set_slow, get_slow, [] { return std::string("WORKER:FACTOR each"); }},
    {"exchange_us", FieldType::kList, "microseconds",
     "synthetic: time that each exchange takes longer, by number of workers, for example 1:0,4:20000; linear in "
     "between",
     set_exchange, get_exchange, [] { return std::string("WORKERS:MICROSECONDS each, ascending"); }},
    integer_field<&O::startup_delay_ms, 0, 3'600'000>("startup_delay_ms", "milliseconds",
                                                      "synthetic: time to wait before being ready"),
};

}  // namespace

std::span<const TrainerField> trainer_fields() {
  return kFields;
}

std::string flag_name(const TrainerField& field) {
  std::string flag = "--" + std::string(field.name);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

Status validate(const TrainerOptions& options) {
  const bool needs_text = options.model == ModelKind::kCharLm;
  if (needs_text && options.train.empty()) {
    return invalid("model char_lm needs a text file; set train to its path");
  }
  if (needs_text && options.format != DataFormat::kAuto && options.format != DataFormat::kText) {
    return invalid("model char_lm reads text; set format to text or remove it");
  }
  if (options.model != ModelKind::kMlp) return {};
  if (options.format == DataFormat::kText) {
    return invalid("model mlp needs labelled rows, not text; set model to char_lm or another format");
  }
  const bool generated = options.format == DataFormat::kGenerated;
  if (generated && !options.train.empty()) {
    return invalid("format generated reads no file; remove train or set the format of that file");
  }
  const bool needs_file = !generated && options.format != DataFormat::kAuto;
  if (options.train.empty() && (needs_file || !options.test.empty())) {
    return invalid("no training data; set train to its path");
  }
  return {};
}

std::vector<std::string> to_arguments(const TrainerOptions& options) {
  const TrainerOptions defaults;
  std::vector<std::string> arguments;
  for (const TrainerField& field : kFields) {
    const std::string value = field.get(options);
    if (value != field.get(defaults)) arguments.push_back(flag_name(field) + "=" + value);
  }
  return arguments;
}

OptimizerKind effective_optimizer(const TrainerOptions& options) {
  if (options.optimizer != OptimizerKind::kAuto) return options.optimizer;
  return options.model == ModelKind::kCharLm ? OptimizerKind::kAdam : OptimizerKind::kSgd;
}

double effective_learning_rate(const TrainerOptions& options) {
  if (options.learning_rate > 0) return options.learning_rate;
  return effective_optimizer(options) == OptimizerKind::kAdam ? 0.003 : 0.1;
}

double effective_momentum(const TrainerOptions& options) {
  const bool stateless = options.model == ModelKind::kSynthetic && options.optimizer == OptimizerKind::kAuto;
  return stateless ? 0 : options.momentum;
}

}  // namespace elastictrain::train
