#include "train/builtin/options.h"

#include <doctest/doctest.h>

#include <set>
#include <tuple>

using namespace elastictrain;
using namespace elastictrain::train;

namespace {

const TrainerField& field_named(std::string_view name) {
  for (const TrainerField& field : trainer_fields()) {
    if (field.name == name) return field;
  }
  panic("no such field");
}

Status set(TrainerOptions& options, std::string_view name, std::string_view text) {
  return field_named(name).set(options, text);
}

// The flag parser's handling of "--learning-rate=0.1".
TrainerOptions from_arguments(const std::vector<std::string>& arguments) {
  TrainerOptions options;
  for (const std::string& argument : arguments) {
    const std::size_t equals = argument.find('=');
    for (const TrainerField& field : trainer_fields()) {
      if (flag_name(field) == argument.substr(0, equals)) REQUIRE(field.set(options, argument.substr(equals + 1)));
    }
  }
  return options;
}

}  // namespace

TEST_CASE("every field has its own name, a flag, a help text and a value that it takes back") {
  std::set<std::string> flags;
  for (const TrainerField& field : trainer_fields()) {
    CAPTURE(field.name);
    CHECK(flags.insert(flag_name(field)).second);
    CHECK(flag_name(field).find('_') == std::string::npos);
    CHECK_FALSE(field.help.empty());
    TrainerOptions options;
    const std::string text = field.get(options);
    CHECK(field.set(options, text).ok());
    CHECK(field.get(options) == text);
  }
}

TEST_CASE("default options need no arguments") {
  CHECK(to_arguments(TrainerOptions{}).empty());
}

TEST_CASE("arguments carry every changed field and bring it back") {
  const std::pair<std::string_view, std::string_view> values[] = {{"model", "char_lm"},
                                                                  {"train", "-a dir/x,y.txt"},
                                                                  {"test", "t=1.txt"},
                                                                  {"format", "text"},
                                                                  {"samples", "77"},
                                                                  {"hidden", "5,6,7"},
                                                                  {"context", "3"},
                                                                  {"embedding", "4"},
                                                                  {"optimizer", "adam"},
                                                                  {"learning_rate", "0.125"},
                                                                  {"momentum", "0.5"},
                                                                  {"weight_decay", "1e-04"},
                                                                  {"epochs", "9"},
                                                                  {"max_steps", "18446744073709551615"},
                                                                  {"seed", "12"},
                                                                  {"batch", "8"},
                                                                  {"eval_every_epochs", "0"},
                                                                  {"log_every_steps", "10"},
                                                                  {"device", "cuda"},
                                                                  {"compute_us_per_sample", "250"},
                                                                  {"compute", "spin"},
                                                                  {"jitter", "0.25"},
                                                                  {"parameter_bytes", "100000000"},
                                                                  {"buckets", "16"},
                                                                  {"gradient", "constant"},
                                                                  {"slow", "3:2.5,4:1.5"},
                                                                  {"exchange_us", "1:0,4:20000"},
                                                                  {"startup_delay_ms", "500"}};
  REQUIRE(std::size(values) == trainer_fields().size());
  TrainerOptions options;
  for (const auto& [name, text] : values) REQUIRE(set(options, name, text).ok());

  const std::vector<std::string> arguments = to_arguments(options);
  CHECK(arguments.size() == trainer_fields().size());
  const TrainerOptions back = from_arguments(arguments);
  for (const auto& [name, text] : values) {
    CAPTURE(name);
    CHECK(field_named(name).get(back) == text);
  }
}

TEST_CASE("a bad value is refused with what is allowed, and changes nothing") {
  const std::tuple<std::string_view, std::string_view, std::string_view> bad[] = {
      {"model", "resnet", "mlp, char_lm, synthetic"},
      {"batch", "0", "1 to 1000000"},
      {"exchange_us", "4:100,2:50", "more workers than before"},
      {"exchange_us", "0:100", "WORKERS:MICROSECONDS"},
      {"exchange_us", "2:4000000000", "at most an hour"},
      {"batch", "12x", "whole number"},
      {"epochs", "-1", "whole number"},
      {"max_steps", "18446744073709551616", "whole number"},
      {"learning_rate", "nan", "from 0"},
      {"momentum", "1", "below 1"},
      {"hidden", "128,,64", "128,64"},
      {"hidden", "0", "1 to 65536"},
      {"device", "gpu", "cpu, cuda, auto"},
      {"slow", "3", "WORKER:FACTOR"},
      {"slow", "3:0", "WORKER:FACTOR"},
      {"slow", "x:2", "WORKER:FACTOR"}};
  for (const auto& [name, text, hint] : bad) {
    CAPTURE(name);
    CAPTURE(text);
    TrainerOptions options;
    const std::string before = field_named(name).get(options);
    const Status status = set(options, name, text);
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().message.find(hint) != std::string::npos);
    CHECK(field_named(name).get(options) == before);
  }
}

TEST_CASE("options that do not fit together are refused") {
  TrainerOptions options;
  CHECK(validate(options).ok());
  options.test = "held-out.csv";
  CHECK_FALSE(validate(options).ok());
  options.train = "rows.csv";
  CHECK(validate(options).ok());
  options.format = DataFormat::kText;
  CHECK_FALSE(validate(options).ok());
  options.format = DataFormat::kGenerated;
  CHECK_FALSE(validate(options).ok());

  TrainerOptions text;
  text.model = ModelKind::kCharLm;
  CHECK_FALSE(validate(text).ok());
  text.train = "book.txt";
  CHECK(validate(text).ok());
  text.format = DataFormat::kCsv;
  CHECK_FALSE(validate(text).ok());
}

TEST_CASE("optimizer and learning rate follow the model unless they are given") {
  TrainerOptions options;
  CHECK(effective_optimizer(options) == OptimizerKind::kSgd);
  CHECK(effective_momentum(options) == doctest::Approx(0.9));
  options.model = ModelKind::kCharLm;
  CHECK(effective_optimizer(options) == OptimizerKind::kAdam);
  CHECK(effective_learning_rate(options) == doctest::Approx(0.003));
  options.learning_rate = 0.5;
  CHECK(effective_learning_rate(options) == doctest::Approx(0.5));
  options.model = ModelKind::kSynthetic;
  CHECK(effective_momentum(options) == 0);
  options.optimizer = OptimizerKind::kSgd;
  CHECK(effective_momentum(options) == doctest::Approx(0.9));
}
