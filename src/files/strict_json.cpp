// SPDX-License-Identifier: Apache-2.0
#include "files/strict_json.h"

#include <utility>
#include <vector>

#include "files/mapped_file.h"

namespace lockstep::files {
namespace {

using nlohmann::json;

/// Builds a document from parser events. A handler returns false to stop, with `problem` set.
class Builder final : public nlohmann::json_sax<json> {
 public:
  explicit Builder(const JsonLimits& limits) : limits_(limits) {}

  json document;
  std::string problem;

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return stop("binary values are not JSON"); }
  bool start_object(size_t) override { return open(json::object()); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(json::array()); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (open_.back()->contains(name)) return stop(fmt::format("key \"{}\" occurs twice", printable(name)));
    key_ = std::move(name);
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& reason) override {
    std::string_view text = reason.what();
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..." -> what follows the bracket.
    if (const size_t bracket = text.find("] "); bracket != std::string_view::npos) text.remove_prefix(bracket + 2);
    return stop(fmt::format("not valid JSON at byte {}: {}", position, printable(text, 200)));
  }

 private:
  bool stop(std::string text) {
    if (problem.empty()) problem = std::move(text);
    return false;
  }

  /// Puts a value where the document is being written. nullptr if there are too many.
  json* place(json value) {
    if (++values_ > limits_.max_values) {
      stop(fmt::format("expected at most {} JSON values", limits_.max_values));
      return nullptr;
    }
    if (open_.empty()) {
      document = std::move(value);
      return &document;
    }
    json& parent = *open_.back();
    // Pointers in open_ stay valid: only the innermost container grows.
    if (parent.is_array()) return &parent.get_ref<json::array_t&>().emplace_back(std::move(value));
    return &(parent[key_] = std::move(value));
  }
  bool add(json value) { return place(std::move(value)) != nullptr; }
  bool open(json value) {
    if (open_.size() >= limits_.max_depth) return stop(fmt::format("nested deeper than {} levels", limits_.max_depth));
    json* placed = place(std::move(value));
    if (placed == nullptr) return false;
    open_.push_back(placed);
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const JsonLimits& limits_;
  std::vector<json*> open_;
  std::string key_;
  size_t values_ = 0;
};

}  // namespace

Expected<json> parse_json(std::string_view text, std::string_view source, const JsonLimits& limits) {
  Builder builder(limits);
  const bool complete = json::sax_parse(text, &builder);
  if (!complete || !builder.problem.empty()) {
    return error(StatusCode::kDataLoss, "{}: {}", printable(source), builder.problem);
  }
  return std::move(builder.document);
}

std::string_view kind_of(const json& value) {
  switch (value.type()) {
    case json::value_t::null:
      return "null";
    case json::value_t::object:
      return "an object";
    case json::value_t::array:
      return "a list";
    case json::value_t::string:
      return "a string";
    case json::value_t::boolean:
      return "a boolean";
    case json::value_t::number_integer:
      return "a negative integer";
    case json::value_t::number_unsigned:
      return "an integer";
    case json::value_t::number_float:
      return "a fraction";
    default:
      return "another kind of value";
  }
}

}  // namespace lockstep::files
