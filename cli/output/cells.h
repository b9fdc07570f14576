// Purpose: cells of tables and of CSV. Pure.
#pragma once

#include <string>

namespace elastictrain::cli {

std::string fixed(double value, int digits);
// A cell of CSV: quoted if it has to be.
std::string csv_cell(const std::string& text);

}  // namespace elastictrain::cli
