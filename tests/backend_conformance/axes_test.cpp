// SPDX-License-Identifier: Apache-2.0
// The axes of the exactness contract (docs/numerics.md): chunks, pages, block sizes, threads, instruction sets.
#include "support.h"

namespace lockstep::conformance {
namespace {

/// Some requests in one batch and what each gives alone, on a default engine.
struct Reference {
  explicit Reference(const std::string& model, DType kv = DType::kBF16) : setup(default_setup(model)) {
    setup.shape.kv_dtype = kv;
    Engine engine = make_engine(setup);
    requests = make_requests(engine, 6, 90, 6, 11);
    expected = alone(engine, requests);
  }
  EngineSetup setup;
  std::vector<Request> requests;
  std::vector<Stream> expected;
};

class EveryModel : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryModel, ChunksDontMatter) {
  const Reference reference(GetParam());
  Engine engine = make_engine(reference.setup);
  for (const int64_t chunk : {1, 2, 5, 16, 17, 64, 89}) {
    GenerateOptions options = engine.options();
    options.chunk = chunk;
    expect_same_bits(engine.generate(reference.requests, options), reference.expected,
                     "chunks of " + std::to_string(chunk));
  }
}

TEST_P(EveryModel, VariantsAndThreadsDontMatter) {
  for (const DType kv : {DType::kBF16, DType::kF32}) {
    const Reference reference(GetParam(), kv);
    for (const std::string& variant : subject().variants()) {
      for (const int threads : {1, 3}) {
        EngineSetup setup = reference.setup;
        setup.variant = variant;
        setup.threads = threads;
        Engine engine = make_engine(setup);
        GenerateOptions options = engine.options();
        options.chunk = threads == 1 ? 1 << 20 : 7;
        expect_same_bits(engine.generate(reference.requests, options), reference.expected,
                         variant + ", threads " + std::to_string(threads));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EveryModel, ::testing::ValuesIn(subject().models()), [](const auto& one) {
  std::string name = one.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
});

TEST(Pages, AnyOrderAndAnyBlockSizeGiveTheSameBits) {
  const Reference reference(subject().models().front());
  for (const int64_t block_size : {16, 32, 64, 128, 256}) {
    EngineSetup setup = reference.setup;
    setup.shape.block_size = block_size;
    setup.num_blocks = 40;
    Engine engine = make_engine(setup);
    for (const uint32_t seed : {0u, 5u}) {
      GenerateOptions options = engine.options();
      options.page_seed = seed;
      options.chunk = 33;
      expect_same_bits(engine.generate(reference.requests, options), reference.expected,
                       "blocks of " + std::to_string(block_size) + ", order " + std::to_string(seed));
    }
  }
}

/// Lengths around pages (16) and softmax segments (512).
TEST(Pages, LengthsAroundEdges) {
  EngineSetup setup = default_setup(subject().models().front());
  setup.shape.max_model_len = 0;
  setup.shape.max_num_batched_tokens = 1200;
  setup.num_blocks = 700;
  Engine engine = make_engine(setup);
  const int64_t context = engine.backend->capabilities().max_model_len;
  std::vector<Request> requests;
  for (const int64_t length : {15, 16, 17, 31, 33, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025}) {
    if (length + 3 > context) continue;
    Request request;
    request.prompt = random_ids(engine, length, static_cast<uint32_t>(length));
    request.max_tokens = 3;
    request.logprobs_k = 2;
    requests.push_back(std::move(request));
  }
  const std::vector<Stream> expected = alone(engine, requests);
  GenerateOptions options = engine.options();
  options.page_seed = 4;
  for (const int64_t chunk : {7, 100, 1 << 20}) {
    options.chunk = chunk;
    expect_same_bits(engine.generate(requests, options), expected, "chunks of " + std::to_string(chunk));
  }
}

TEST(Pages, TheLastPositionOfTheContext) {
  EngineSetup setup = default_setup(subject().models().front());
  setup.shape.max_model_len = 48;
  Engine engine = make_engine(setup);
  RowSpec row;
  row.tokens = random_ids(engine, 48, 1);
  row.samples = 1;
  row.pages = pages(0, 3);
  EXPECT_EQ(engine.run(StagedStep(1, 0, {row}, 16, 3)).row_status[0], 0);
  row.tokens.push_back(0);
  row.pages = pages(0, 4);
  const auto result = engine.driver->run(StagedStep(2, 0, {row}, 16, 4));
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message(), ::testing::HasSubstr("seq_lens[0] is 49"));
}

}  // namespace
}  // namespace lockstep::conformance
