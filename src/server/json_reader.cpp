// SPDX-License-Identifier: Apache-2.0
#include "server/json_reader.h"

#include <string>
#include <unordered_map>
#include <vector>

namespace lockstep::server {

namespace {

/// Builds the document from nlohmann's SAX events. Its own DOM builder looks each key up by a linear scan, so that a
/// body of a million keys would take hours; here open objects have an index.
class DocumentBuilder final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool key(string_t& name) override {
    open_.back().key = std::move(name);
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    error_position = position;
    return false;
  }

  Json root;
  bool too_deep = false;
  std::size_t error_position = 0;

 private:
  struct Container {
    Json value;
    std::string key;                                  // of the member that comes next
    std::unordered_map<std::string, size_t> index{};  // key -> place, objects only
  };

  bool open(Json container) {
    too_deep = open_.size() >= kMaxJsonDepth;
    if (!too_deep) open_.push_back({std::move(container), {}});
    return !too_deep;
  }

  bool close() {
    Json value = std::move(open_.back().value);
    open_.pop_back();
    return add(std::move(value));
  }

  bool add(Json value) {
    if (open_.empty()) {
      root = std::move(value);
      return true;
    }
    Container& container = open_.back();
    if (container.value.is_array()) {
      container.value.push_back(std::move(value));
      return true;
    }
    auto& members = container.value.get_ref<Json::object_t&>();
    const auto [place, is_new] = container.index.emplace(container.key, members.size());
    if (is_new) {
      // The base class's push: ordered_map's own emplace would scan all members for the key.
      static_cast<Json::object_t::Container&>(members).emplace_back(std::move(container.key), std::move(value));
    } else {
      members.begin()[static_cast<std::ptrdiff_t>(place->second)].second = std::move(value);
    }
    return true;
  }

  std::vector<Container> open_;
};

}  // namespace

ApiResult<Json> parse_body(std::string_view body) {
  DocumentBuilder builder;
  if (Json::sax_parse(body, &builder)) return std::move(builder.root);
  if (builder.too_deep) {
    return tl::unexpected(bad_request("", fmt::format("the body nests deeper than {} levels", kMaxJsonDepth)));
  }
  return tl::unexpected(
      bad_request("", fmt::format("the body is not valid JSON in UTF-8 (error at byte {})", builder.error_position)));
}

}  // namespace lockstep::server
