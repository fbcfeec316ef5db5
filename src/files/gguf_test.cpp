// SPDX-License-Identifier: Apache-2.0
#include "files/gguf.h"

#include <limits>
#include <random>

#include "files/gguf_parse.h"
#include "files/testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::files {
namespace {

using testing::GgufWriter;
using ::testing::HasSubstr;
using testing::TempDir;

std::string zeros(size_t n) { return std::string(n, '\0'); }

GgufWriter sample() {
  GgufWriter w;
  w.string("general.architecture", "qwen3").u32("a.u32", 4000000000u).f32("a.f32", 1.5f).boolean("a.bool", true);
  w.key<int8_t>("a.i8", 1, -7)
      .key<uint8_t>("a.u8", 0, 250)
      .key<int16_t>("a.i16", 3, -300)
      .key<uint16_t>("a.u16", 2, 65535);
  w.key<int32_t>("a.i32", 5, -5).key<int64_t>("a.i64", 11, std::numeric_limits<int64_t>::min());
  w.key<uint64_t>("a.u64", 10, (uint64_t{1} << 63) - 1).key<double>("a.f64", 12, 0.1);
  w.strings("a.strings", {"x", "", std::string("n\0l", 3)}).array<int32_t>("a.ints", 5, {3, -1, 2});
  w.array<float>("a.floats", 6, {0.5f, -2.0f}).array<uint8_t>("a.bools", 7, {1, 0, 1}).array<uint8_t>("a.empty", 0, {});
  w.tensor("m", {3, 2}, 0, std::string("\0\0\x80\x3f", 4) + zeros(20));  // F32, first value 1.0
  w.tensor("q", {64, 5, 2}, 3, zeros(400));                              // Q4_1
  w.tensor("k", {256}, 14, zeros(210));                                  // Q6_K
  return w;
}

Expected<std::shared_ptr<const GgufFile>> open_bytes(const std::string& bytes) {
  const TempDir dir;
  return GgufFile::open(dir.write("t.gguf", bytes));
}

void expect_refused(const std::string& bytes, StatusCode code, const std::string& part) {
  const auto file = open_bytes(bytes);
  ASSERT_FALSE(file.has_value()) << "accepted; expected an error with: " << part;
  EXPECT_EQ(file.error().code(), code) << file.error().to_string();
  EXPECT_THAT(file.error().message(), HasSubstr(part));
  EXPECT_THAT(file.error().message(), HasSubstr("t.gguf"));
}

TEST(Gguf, MetadataOfEveryType) {
  for (const uint32_t version : {2u, 3u}) {
    GgufWriter w = sample();
    w.version = version;
    const auto opened = open_bytes(w.bytes());
    ASSERT_TRUE(opened.has_value()) << opened.error().to_string();
    const GgufFile& f = **opened;
    EXPECT_EQ(f.find_string("general.architecture"), "qwen3");
    EXPECT_EQ(f.find_int("a.u32"), 4000000000);
    EXPECT_EQ(f.find_float("a.f32"), 1.5);
    EXPECT_EQ(f.find_bool("a.bool"), true);
    EXPECT_EQ(f.find_int("a.i8"), -7);
    EXPECT_EQ(f.find_int("a.u8"), 250);
    EXPECT_EQ(f.find_int("a.i16"), -300);
    EXPECT_EQ(f.find_int("a.u16"), 65535);
    EXPECT_EQ(f.find_int("a.i32"), -5);
    EXPECT_EQ(f.find_int("a.i64"), std::numeric_limits<int64_t>::min());
    EXPECT_EQ(f.find_int("a.u64"), std::numeric_limits<int64_t>::max());
    EXPECT_EQ(f.find_float("a.f64"), 0.1);
    EXPECT_EQ(f.find_float("a.i8"), -7.0);  // an integer converts
    ASSERT_NE(f.find_strings("a.strings"), nullptr);
    EXPECT_EQ(*f.find_strings("a.strings"), (std::vector<std::string>{"x", "", std::string("n\0l", 3)}));
    ASSERT_NE(f.find_ints("a.ints"), nullptr);
    EXPECT_EQ(*f.find_ints("a.ints"), (std::vector<int64_t>{3, -1, 2}));
    ASSERT_NE(f.find_floats("a.floats"), nullptr);
    EXPECT_EQ(*f.find_floats("a.floats"), (std::vector<double>{0.5, -2.0}));
    ASSERT_NE(f.find("a.bools"), nullptr);
    EXPECT_EQ(std::get<std::vector<bool>>(*f.find("a.bools")), (std::vector<bool>{true, false, true}));
    EXPECT_TRUE(f.find_ints("a.empty")->empty());
    EXPECT_EQ(f.find("absent"), nullptr);
    EXPECT_EQ(f.find_string("a.u32"), std::nullopt);  // another type
    EXPECT_EQ(f.find_int("a.bool"), std::nullopt);
    EXPECT_EQ(f.find_strings("a.ints"), nullptr);
  }
}

TEST(Gguf, TensorsInRowMajorOrder) {
  const auto opened = open_bytes(sample().bytes());
  ASSERT_TRUE(opened.has_value()) << opened.error().to_string();
  const GgufFile& f = **opened;
  ASSERT_EQ(f.tensors().size(), 3u);
  const GgufTensor* m = f.find_tensor("m");
  ASSERT_NE(m, nullptr);
  EXPECT_EQ(m->dtype, DType::kF32);
  EXPECT_EQ(m->shape, (std::vector<int64_t>{2, 3}));
  ASSERT_EQ(m->data.size(), 24u);
  EXPECT_EQ(m->data[3], std::byte{0x3f});
  const GgufTensor* q = f.find_tensor("q");
  EXPECT_EQ(q->dtype, DType::kQ4_1);
  EXPECT_EQ(q->shape, (std::vector<int64_t>{2, 5, 64}));
  EXPECT_EQ(q->data.size(), 400u);
  EXPECT_EQ(f.find_tensor("k")->data.size(), 210u);
  EXPECT_EQ(f.find_tensor("nope"), nullptr);
}

TEST(Gguf, AVocabularyWithoutTensorsAndAnotherAlignment) {
  EXPECT_TRUE(open_bytes(GgufWriter().u32("x", 1).bytes()).has_value());
  GgufWriter w;
  w.alignment = 64;
  w.u32("general.alignment", 64).tensor("a", {1}, 0, zeros(4)).tensor("b", {1}, 0, std::string("\1\2\3\4"));
  const auto opened = open_bytes(w.bytes());
  ASSERT_TRUE(opened.has_value()) << opened.error().to_string();
  EXPECT_EQ((*opened)->find_tensor("b")->data[1], std::byte{2});
  EXPECT_EQ((*opened)->find_tensor("b")->data.data() - (*opened)->find_tensor("a")->data.data(), 64);
}

TEST(Gguf, HeadIsChecked) {
  expect_refused("", StatusCode::kDataLoss, "ends inside the magic number");
  expect_refused("GGUF", StatusCode::kDataLoss, "ends inside the version");
  GgufWriter w;
  w.magic = 0x46554746;
  expect_refused(w.bytes(), StatusCode::kDataLoss, "expected magic number \"GGUF\"");
  for (const uint32_t version : {0u, 1u, 4u}) {
    w = GgufWriter();
    w.version = version;
    expect_refused(w.bytes(), StatusCode::kUnsupported, fmt::format("expected 2 or 3, found {}", version));
  }
  w.version = 0x03000000u;
  expect_refused(w.bytes(), StatusCode::kUnsupported, "big-endian");
  w = sample();
  w.extra_keys = uint64_t{1} << 62;
  expect_refused(w.bytes(), StatusCode::kDataLoss, "metadata count");
  w = sample();
  w.extra_tensors = ~uint64_t{0} - 3;
  expect_refused(w.bytes(), StatusCode::kDataLoss, "tensor count");
}

TEST(Gguf, MetadataIsChecked) {
  const auto refused = [](const GgufWriter& w, const std::string& part, StatusCode code = StatusCode::kDataLoss) {
    expect_refused(w.bytes(), code, part);
  };
  refused(GgufWriter().u32("twice", 1).u32("twice", 1), "metadata key twice occurs twice");
  refused(GgufWriter().u32("", 1), "name of metadata key 0: expected 1..65535 bytes, found 0");
  refused(GgufWriter().u32(std::string(65536, 'k'), 1), "found 65536");
  refused(GgufWriter().u32("x", 1).raw_key("k", 13, ""), "k: unknown metadata type 13");
  refused(GgufWriter().key<uint8_t>("b", 7, 2), "b: expected a bool (0 or 1), found 2");
  refused(GgufWriter().key<uint64_t>("u", 10, uint64_t{1} << 63), "u: integer 9223372036854775808 is over 2^63-1");
  std::string lie;
  testing::put<uint64_t>(lie, ~uint64_t{0});
  refused(GgufWriter().raw_key("s", 8, lie), "s at byte");
  std::string array;
  testing::put<uint32_t>(array, 4);
  testing::put<uint64_t>(array, uint64_t{1} << 24);
  refused(GgufWriter().raw_key("a", 9, array), "a: array of 16777216 elements can't fit");
  std::string huge;
  testing::put<uint32_t>(huge, 8);
  testing::put<uint64_t>(huge, ~uint64_t{0});
  refused(GgufWriter().raw_key("a", 9, huge), "a: array of 18446744073709551615 elements");
  std::string nested;
  testing::put<uint32_t>(nested, 9);
  testing::put<uint64_t>(nested, 1);
  refused(GgufWriter().raw_key("a", 9, nested + nested), "a: arrays of arrays", StatusCode::kUnsupported);
  std::string unknown;
  testing::put<uint32_t>(unknown, 99);
  testing::put<uint64_t>(unknown, 0);
  refused(GgufWriter().raw_key("a", 9, unknown), "a: unknown array element type 99");
  refused(GgufWriter().array<uint8_t>("a", 7, {1, 3}), "a: expected a bool");
  refused(GgufWriter().u32("bad\x01name\xff", 1).u32("bad\x01name\xff", 1), "bad\\x01name\\xff occurs twice");
  for (const uint32_t alignment : {0u, 3u, 48u, 0x80000000u}) {
    refused(GgufWriter().u32("general.alignment", alignment), "general.alignment: expected a power of two");
  }
  refused(GgufWriter().string("general.alignment", "32"), "general.alignment: expected an integer");
}

TEST(Gguf, TensorsAreChecked) {
  const auto refused = [](const GgufWriter& w, const std::string& part, StatusCode code = StatusCode::kDataLoss) {
    expect_refused(w.bytes(), code, part);
  };
  refused(GgufWriter().tensor("t", {1}, 0, zeros(4)).tensor("t", {1}, 0, zeros(4)), "tensor t occurs twice");
  refused(GgufWriter().tensor("t", {}, 0, zeros(40)), "tensor t: expected 1..4 dimensions, found 0");
  refused(GgufWriter().tensor("t", {1, 1, 1, 1, 1}, 0, zeros(4)), "found 5");
  refused(GgufWriter().tensor("t", {4, 0}, 0, zeros(40)), "tensor t: dimension 1 is 0");
  refused(GgufWriter().tensor("t", {uint64_t{1} << 63}, 0, zeros(4)), "tensor t: dimension 0 is 9223372036854775808");
  refused(GgufWriter().tensor("t", {uint64_t{1} << 32, uint64_t{1} << 32}, 0, zeros(4)), "more than 2^63-1 elements");
  refused(GgufWriter().tensor("t", {uint64_t{1} << 62}, 0, zeros(4)), "more than 2^63-1 bytes");
  refused(GgufWriter().tensor("t", {48}, 3, zeros(40)),
          "tensor t: rows of 48 elements, expected a multiple of 32 for q4_1");
  refused(GgufWriter().tensor("t", {128, 2}, 12, zeros(144)), "expected a multiple of 256 for q4_k");
  refused(GgufWriter().tensor("t", {256}, 16, zeros(66)), "tensor t: IQ2_XXS (type 16)", StatusCode::kUnsupported);
  refused(GgufWriter().tensor("t", {256}, 77, zeros(66)), "tensor t: type 77 is not", StatusCode::kUnsupported);
  refused(GgufWriter().raw_tensor("t", {1}, 0, 4).raw_data(zeros(64)), "tensor t: offset 4 is no multiple");
  refused(GgufWriter().raw_tensor("t", {9}, 0, 0).raw_data(zeros(35)),
          "tensor t: expected 36 bytes at offset 0 of the data, but the data has only 35 bytes");
  refused(GgufWriter().raw_tensor("t", {1}, 0, ~uint64_t{31}).raw_data(zeros(64)), "tensor t: expected 4 bytes");
  refused(GgufWriter().raw_tensor("t", {1}, 0, 0), "the data has only 0 bytes");
  refused(GgufWriter().raw_tensor("a", {9}, 0, 0).raw_tensor("b", {1}, 0, 32).raw_data(zeros(64)),
          "tensors a and b overlap");
  refused(GgufWriter().raw_tensor("a", {9}, 0, 0).raw_tensor("b", {9}, 0, 0).raw_data(zeros(64)), "overlap");
}

TEST(Gguf, MissingFilesAndFolders) {
  const TempDir dir;
  EXPECT_EQ(GgufFile::open(dir.path() / "none.gguf").error().code(), StatusCode::kNotFound);
  EXPECT_EQ(GgufFile::open(dir.path()).error().code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(is_gguf(dir.path()));
  EXPECT_FALSE(is_gguf(dir.path() / "none.gguf"));
  EXPECT_FALSE(is_gguf(dir.write("short", "GGU")));
  EXPECT_TRUE(is_gguf(dir.write("ok", "GGUF")));
}

TEST(Gguf, EveryTruncationIsRefused) {
  const std::string bytes = sample().bytes();
  for (size_t n = 0; n < bytes.size(); ++n) {
    // A buffer of its own, so that a read past the end is seen by the address sanitizer.
    const std::vector<char> part(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
    EXPECT_FALSE(parse_gguf(std::as_bytes(std::span(part)), "t").has_value()) << n;
  }
}

TEST(Gguf, FlippedBytesNeverCrash) {
  const std::string good = sample().bytes();
  std::mt19937 random(20240607);
  size_t accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = good;
    for (auto flips = random() % 3 + 1; flips > 0; --flips)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    const auto file = parse_gguf(std::as_bytes(std::span(bytes)), "t");
    if (!file) continue;
    ++accepted;
    for (const GgufTensor& t : file->tensors) {  // every byte that is promised must be readable
      std::byte sum{0};
      for (const std::byte b : t.data) sum ^= b;
      int64_t elements = 1;
      for (const int64_t extent : t.shape) elements *= extent;
      EXPECT_EQ(static_cast<int64_t>(t.data.size()), dtype_bytes(t.dtype, elements)) << static_cast<int>(sum);
    }
  }
  EXPECT_GT(accepted, 500u);  // flips in values and data are harmless
  EXPECT_LT(accepted, 19500u);
}

TEST(Gguf, TheDefaultModel) {
  const std::filesystem::path path = LOCKSTEP_SMOLLM2_GGUF;
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there; ./dev setup fetches it";
  const auto opened = GgufFile::open(path);
  ASSERT_TRUE(opened.has_value()) << opened.error().to_string();
  const GgufFile& f = **opened;
  EXPECT_EQ(f.find_string("general.architecture"), "llama");
  EXPECT_EQ(f.find_int("llama.block_count"), 30);
  EXPECT_EQ(f.find_float("llama.attention.layer_norm_rms_epsilon"), static_cast<double>(1e-5f));
  EXPECT_EQ(f.find_strings("tokenizer.ggml.tokens")->size(), 49152u);
  EXPECT_EQ(f.find_strings("tokenizer.ggml.tokens")->at(2), "<|im_end|>");
  EXPECT_EQ(f.find_ints("tokenizer.ggml.token_type")->size(), 49152u);
  ASSERT_EQ(f.tensors().size(), 272u);
  const GgufTensor* down = f.find_tensor("blk.0.ffn_down.weight");
  ASSERT_NE(down, nullptr);
  EXPECT_EQ(down->dtype, DType::kQ4_1);
  EXPECT_EQ(down->shape, (std::vector<int64_t>{576, 1536}));
  // Offset as PyPI gguf's reader reports it, from the start of the data section.
  EXPECT_EQ(down->data.data() - f.find_tensor("token_embd.weight")->data.data(), 31868992 - 1785664);
}

}  // namespace
}  // namespace lockstep::files
