// Purpose: help and parse errors in the terms of users. CLI11's own texts name positional arguments by their internal
// name and do not say what to do next. Pure.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

namespace elastictrain::cli {

// Shows a positional argument by its type name: "[NAME] N".
std::shared_ptr<CLI::FormatterBase> make_help_formatter();

// What is wrong with `arguments`, and what would be right. Not for --help and --version, which CLI11 also throws.
std::string parse_error_text(const CLI::App& app, const CLI::ParseError& error,
                             const std::vector<std::string>& arguments);

}  // namespace elastictrain::cli
