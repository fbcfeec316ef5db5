// SPDX-License-Identifier: Apache-2.0
#include "cli/local_model.h"

#include <filesystem>

#include "base/log.h"
#include "cli/progress_bar.h"
#include "hub/hub.h"

namespace lockstep::cli {
namespace {

bool may_be_on_the_hub(const std::string& text) {
  std::error_code ignored;
  if (text.empty() || std::filesystem::exists(text, ignored)) return false;
  const bool is_file = text.find(':') == text.npos && (text.ends_with(".gguf") || text.ends_with(".safetensors"));
  return !is_file && hub::resembles_model_name(text);
}

}  // namespace

std::string hub_repository(const std::string& path_or_name) {
  if (!may_be_on_the_hub(path_or_name)) return "";
  const auto name = hub::parse_model_name(path_or_name);
  return name ? name->repository() : "";
}

Expected<std::string> local_path(const std::string& path_or_name) {
  std::error_code ignored;
  if (!may_be_on_the_hub(path_or_name)) {
    if (std::filesystem::exists(path_or_name, ignored)) return path_or_name;
    return error(
        StatusCode::kNotFound,
        "{}: no such file or folder; expected a local model folder, a .gguf file, or a model of the Hugging Face Hub "
        "as org/name, org/name@revision or org/name:FILE.gguf",
        path_or_name);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const hub::ModelName name, hub::parse_model_name(path_or_name));
  LOCKSTEP_ASSIGN_OR_RETURN(const hub::Settings settings, hub::settings_from_environment());
  std::unique_ptr<ProgressBar> bar;
  const auto path = hub::fetch_model(name, settings, [&](int64_t done, int64_t total) {
    constexpr int64_t kWorthABar = 1 << 20;
    if (bar == nullptr && total >= kWorthABar) {
      bar = std::make_unique<ProgressBar>("downloading " + name.repository(), 1e6, "MB");
    }
    if (bar != nullptr) bar->update(done, total);
  });
  if (!path) {
    return unexpected(
        path.error().with_context(fmt::format("{} is no local path; from the Hugging Face Hub", path_or_name)));
  }
  if (bar != nullptr) bar->finish();
  log_info("{}: {}", path_or_name, path->string());
  return path->string();
}

Status make_local(EngineFlags& flags) {
  LOCKSTEP_ASSIGN_OR_RETURN(flags.model, local_path(flags.model));
  return {};
}

}  // namespace lockstep::cli
