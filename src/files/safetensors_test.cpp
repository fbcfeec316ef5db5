// SPDX-License-Identifier: Apache-2.0
#include "files/safetensors.h"

#include <random>

#include "files/testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::files {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::safetensors;
using testing::TempDir;

Expected<std::vector<SafetensorsTensor>> parse(const std::string& bytes) {
  return parse_safetensors(std::as_bytes(std::span(bytes)), "m.safetensors");
}

void refused(const std::string& bytes, const std::string& part, StatusCode code = StatusCode::kDataLoss) {
  const auto tensors = parse(bytes);
  ASSERT_FALSE(tensors.has_value()) << "accepted; expected an error with: " << part;
  EXPECT_EQ(tensors.error().code(), code) << tensors.error().to_string();
  EXPECT_THAT(tensors.error().message(), HasSubstr(part));
  EXPECT_THAT(tensors.error().message(), HasSubstr("m.safetensors"));
}

/// A file with one tensor "t" with these fields and this many zero bytes of data.
std::string one(const std::string& fields, size_t data_bytes) {
  return safetensors("{\"t\":{" + fields + "}}", std::string(data_bytes, '\0'));
}

TEST(Safetensors, TensorsInTheOrderOfTheirData) {
  const std::string bytes = safetensors(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[3,2],"data_offsets":[8,20]},
          "a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"empty":{"dtype":"I64","shape":[0,9],"data_offsets":[8,8]},
          "scalar":{"dtype":"U8","shape":[],"data_offsets":[20,21]}}   )",
      std::string("\0\0\x80\x3f", 4) + std::string(16, '\0') + "x");
  const auto tensors = parse(bytes);
  ASSERT_TRUE(tensors.has_value()) << tensors.error().to_string();
  ASSERT_EQ(tensors->size(), 4u);
  const SafetensorsTensor& a = tensors->at(0);
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.dtype, DType::kF32);
  EXPECT_THAT(a.shape, ElementsAre(2));
  EXPECT_EQ(a.data.size(), 8u);
  EXPECT_EQ(a.data[3], std::byte{0x3f});
  EXPECT_EQ(tensors->at(1).name, "empty");
  EXPECT_EQ(tensors->at(1).data.size(), 0u);
  EXPECT_EQ(tensors->at(2).name, "b");
  EXPECT_THAT(tensors->at(2).shape, ElementsAre(3, 2));
  EXPECT_THAT(tensors->at(3).shape, IsEmpty());
  EXPECT_EQ(tensors->at(3).data[0], std::byte{'x'});
}

TEST(Safetensors, EveryTypeThatIsRead) {
  const std::pair<const char*, DType> types[] = {
      {"F32", DType::kF32}, {"F16", DType::kF16},        {"BF16", DType::kBF16},
      {"I8", DType::kI8},   {"U8", DType::kU8},          {"I32", DType::kI32},
      {"I64", DType::kI64}, {"F8_E4M3", DType::kF8E4M3}, {"BOOL", DType::kBool}};
  for (const auto& [name, dtype] : types) {
    const auto bytes = static_cast<size_t>(*dtype_bytes(dtype, 3));
    const auto tensors =
        parse(one(fmt::format(R"("dtype":"{}","shape":[3],"data_offsets":[0,{}])", name, bytes), bytes));
    ASSERT_TRUE(tensors.has_value()) << name << tensors.error().to_string();
    EXPECT_EQ(tensors->at(0).dtype, dtype);
  }
  for (const char* name : {"F64", "I16", "U16", "U32", "U64", "F8_E5M2", "C64"}) {
    refused(one(fmt::format(R"("dtype":"{}","shape":[0],"data_offsets":[0,0])", name), 0),
            fmt::format("tensor t: dtype {} is not supported", name), StatusCode::kUnsupported);
  }
}

// Case 36 of the public cases, in its order.
TEST(Safetensors, Case36) {
  refused(std::string(8, '\xff'), "header length: expected at most 100000000 bytes, found 18446744073709551615");
  std::string short_file;
  testing::put<uint64_t>(short_file, 8);
  refused(short_file.substr(0, 4), "expected an 8-byte header length, found a file of 4 bytes");
  refused(short_file + "{}  ", "header length 8, but only 4 bytes follow");
  refused(one(R"("dtype":"F32","shape":[32,8],"data_offsets":[0,65536])", 65536),
          "tensor t: shape [32, 8] of f32: expected 1024 bytes, found data_offsets [0, 65536] with 65536 bytes");
  refused(one(R"("dtype":"F32","shape":[1000000],"data_offsets":[0,4000000])", 12),
          "tensor t: data_offsets end at 4000000, but the file has only 12 bytes");
  refused(one(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])", 8), "tensor t: data_offsets: the end 0 is before");
  refused(one(R"("dtype":"F32","shape":[2],"data_offsets":[-4,4])", 8),
          "tensor t: data_offsets: expected integers from 0, found a negative integer");
  refused(safetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},
                          "b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                      std::string(12, '\0')),
          "tensor b: its data begins at 4, inside that of tensor a, which ends at 8");
  refused(safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
                          "b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
                      std::string(12, '\0')),
          "tensor b: 4 bytes before its data belong to no tensor");
  refused(one(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])", 8), "tensor t: 4 bytes before its data");
  refused(one(R"("dtype":"Q9","shape":[1],"data_offsets":[0,4])", 4), "tensor t: unknown dtype \"Q9\"");
  refused(one(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4])", 4),
          "tensor t: shape [4294967296, 4294967296] has more than 2^63-1 elements");
  refused(one(R"("dtype":"F32","shape":[1],"data_offsets":[4])", 4),
          "tensor t: data_offsets: expected 2 numbers, found 1");
  refused(safetensors("{\"\xff\xfe\":1}", ""), "not valid JSON");
  refused(safetensors("{\"a\"", ""), "not valid JSON");
  refused(safetensors("", ""), "the header is not a JSON object");
  refused(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])", 5), "expected 4 bytes of data, found 5 (trailing");
}

TEST(Safetensors, OtherDamage) {
  refused(safetensors("[]", ""), "the header is not a JSON object");
  refused(safetensors(" {}", ""), "the header is not a JSON object");
  refused(safetensors("{}{}", ""), "not valid JSON");
  refused(safetensors("{\"t\":3}", ""), "tensor t: expected an object, found an integer");
  refused(safetensors("{\"\":{}}", ""), "empty name");
  refused(one(R"("shape":[1],"data_offsets":[0,4])", 4), "tensor t: dtype is missing");
  refused(one(R"("dtype":"F32","data_offsets":[0,4])", 4), "tensor t: shape is missing");
  refused(one(R"("dtype":"F32","shape":[1])", 4), "tensor t: data_offsets is missing");
  refused(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1)", 4), "found other fields too");
  refused(one(R"("dtype":7,"shape":[1],"data_offsets":[0,4])", 4),
          "tensor t: dtype: expected a string, found an integer");
  refused(one(R"("dtype":"F32","shape":1,"data_offsets":[0,4])", 4),
          "tensor t: shape: expected a list, found an integer");
  refused(one(R"("dtype":"F32","shape":[1.0],"data_offsets":[0,4])", 4), "found a fraction");
  refused(one(R"("dtype":"F32","shape":["1"],"data_offsets":[0,4])", 4), "found a string");
  refused(one(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4])", 4),
          "expected at most 8 numbers, found 9");
  refused(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,2,4])", 4), "data_offsets: expected at most 2 numbers");
  refused(one(R"("dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4])", 4), "is over 2^63-1");
  refused(one(R"("dtype":"F32","shape":[9223372036854775807],"data_offsets":[0,4])", 4), "more than 2^63-1 bytes");
  refused(one(R"("dtype":"F32","shape":[9223372036854775807,0,2],"data_offsets":[0,4])", 4), "expected 0 bytes");
  refused(safetensors(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"t":{"dtype":"F32","shape":[1],
                          "data_offsets":[0,4]}})",
                      std::string(4, '\0')),
          "key \"t\" occurs twice");
  refused(safetensors(R"({"__metadata__":[]})", ""), "__metadata__: expected an object");
  refused(safetensors(R"({"__metadata__":{"a":1}})", ""), "__metadata__.a: expected a string");
  refused(safetensors("{\"t\":" + std::string(100000, '['), ""), "nested deeper than 64");
  refused(safetensors("{\"bad\\u0001\":3}", ""), "tensor bad\\x01: expected an object");
}

TEST(Safetensors, OpensFiles) {
  const TempDir dir;
  const auto path = dir.write("m.safetensors", one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])", 4));
  const auto file = open_safetensors(path);
  ASSERT_TRUE(file.has_value()) << file.error().to_string();
  EXPECT_EQ(file->tensors.at(0).name, "t");
  EXPECT_EQ(file->file->path(), path.string());
  EXPECT_EQ(open_safetensors(dir.path() / "none").error().code(), StatusCode::kNotFound);
  EXPECT_EQ(open_safetensors(dir.path()).error().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(open_safetensors(dir.write("e", "")).error().message(), HasSubstr("a file of 0 bytes"));
}

TEST(Safetensors, Index) {
  const TempDir dir;
  const auto load = [&](const std::string& text) { return load_safetensors_index(dir.write("i.json", text)); };
  const auto map = load(R"({"metadata":{"total_size":8},"weight_map":{"a":"x.safetensors","b":"y.safetensors"}})");
  ASSERT_TRUE(map.has_value()) << map.error().to_string();
  EXPECT_THAT(*map, ElementsAre(std::pair<const std::string, std::string>("a", "x.safetensors"),
                                std::pair<const std::string, std::string>("b", "y.safetensors")));
  for (const char* name : {"../x", "/etc/passwd", "a/b", "..", ".", "", "a\\\\b", "x\\u0000y"}) {
    const auto bad = load(fmt::format(R"({{"weight_map":{{"a":"{}"}}}})", name));
    ASSERT_FALSE(bad.has_value()) << name;
    EXPECT_THAT(bad.error().message(), HasSubstr("tensor a: expected the name of a file in the same folder"));
  }
  EXPECT_THAT(load(R"({"weight_map":{"a":3}})").error().message(), HasSubstr("found an integer"));
  EXPECT_THAT(load(R"({"weight_map":{}})").error().message(), HasSubstr("weight_map"));
  EXPECT_THAT(load(R"({"weight_map":[]})").error().message(), HasSubstr("found a list"));
  EXPECT_THAT(load(R"({})").error().message(), HasSubstr("found none"));
  EXPECT_THAT(load(R"([])").error().message(), HasSubstr("found none"));
  EXPECT_THAT(load("{").error().message(), HasSubstr("not valid JSON"));
  EXPECT_EQ(load_safetensors_index(dir.path() / "none").error().code(), StatusCode::kNotFound);
}

TEST(Safetensors, TruncationsAndFlippedBytes) {
  const std::string good = safetensors(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},
          "b":{"dtype":"BF16","shape":[5],"data_offsets":[24,34]}})",
      std::string(34, '\1'));
  ASSERT_TRUE(parse(good).has_value());
  for (size_t n = 0; n < good.size(); ++n) EXPECT_FALSE(parse(good.substr(0, n)).has_value()) << n;
  std::mt19937 random(99);
  size_t accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = good;
    for (auto flips = random() % 3 + 1; flips > 0; --flips)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    const auto tensors = parse(bytes);
    if (!tensors) continue;
    ++accepted;
    size_t total = 0;
    for (const SafetensorsTensor& tensor : *tensors) {
      total += tensor.data.size();
    }
    EXPECT_EQ(total, 34u);
  }
  EXPECT_GT(accepted, 500u);
  EXPECT_LT(accepted, 19000u);
}

}  // namespace
}  // namespace lockstep::files
