// SPDX-License-Identifier: Apache-2.0
// For tests: cases from files.
#pragma once

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "chat/jinja/template.h"
#include "nlohmann/json.hpp"

namespace lockstep::chat {

inline std::string read_test_file(const std::string& path) {
  std::ifstream file(std::string(LOCKSTEP_SOURCE_DIR) + path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::vector<nlohmann::ordered_json> read_test_lines(const std::string& path) {
  std::istringstream lines(read_test_file(path));
  std::vector<nlohmann::ordered_json> cases;
  for (std::string line; std::getline(lines, line);) cases.push_back(nlohmann::ordered_json::parse(line));
  return cases;
}

/// The clock of the golden data.
inline jinja::ClockTime golden_time() { return {2025, 7, 26, 14, 5, 9}; }

}  // namespace lockstep::chat
