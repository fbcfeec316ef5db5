// SPDX-License-Identifier: Apache-2.0
#include "loader/load.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/half.h"
#include "base/log.h"
#include "loader/format.h"

namespace lockstep::loader {
namespace {

using files::TensorInfo;
using kernels::WeightFormat;

/// Rows packed at a time: bounds the table of row addresses and paces the progress bar. A multiple of 16.
constexpr int64_t kRowsAtATime = 8192;
/// Rows of a quantised tensor made at a time: a few MB. A multiple of 16.
constexpr int64_t kMadeRows = 512;

/// Where row `row` of the Hugging Face layout lies in the tensor (files/checkpoint.h: interleaved_heads).
int64_t stored_row(const TensorInfo& tensor, int64_t row) {
  if (tensor.interleaved_heads == 0) return row;
  const int64_t dim = tensor.shape[0] / tensor.interleaved_heads;
  const int64_t head = row / dim;
  const int64_t half = (row % dim) / (dim / 2);
  const int64_t i = row % (dim / 2);
  return head * dim + 2 * i + half;
}

float read_float(const TensorInfo& tensor, int64_t index) {
  const std::byte* at = tensor.data.data() + index * dtype_info(tensor.dtype).block_bytes;
  if (tensor.dtype == DType::kF32) {
    float value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return tensor.dtype == DType::kF16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

class DecoderLoader {
 public:
  DecoderLoader(const ops::Context& ctx, const Checkpoint& checkpoint, const DecoderSpec& spec, WeightsMode mode,
                const Progress& progress)
      : ctx_(ctx),
        checkpoint_(checkpoint),
        spec_(spec),
        mode_(mode),
        progress_(progress),
        prefix_(name_prefix(checkpoint)) {
    for (const TensorSpec& tensor : required_tensors(checkpoint.config(), spec, prefix_)) {
      total_bytes_ += checkpoint.find(tensor.name)->stored_bytes();
    }
  }

  Expected<DecoderWeights> run() {
    DecoderWeights out;
    report(0);
    LOCKSTEP_ASSIGN_OR_RETURN(out.embedding, matrix(prefix_ + "embed_tokens.weight"));
    const int64_t layers = checkpoint_.config().num_layers;
    out.layers.reserve(static_cast<size_t>(layers));
    for (int64_t i = 0; i < layers; ++i) {
      LOCKSTEP_ASSIGN_OR_RETURN(LayerWeights one, layer(fmt::format("{}layers.{}.", prefix_, i)));
      out.layers.push_back(std::move(one));
    }
    LOCKSTEP_ASSIGN_OR_RETURN(out.final_norm, vector({prefix_ + "norm.weight"}));
    if (!spec_.tied_head) {
      LOCKSTEP_ASSIGN_OR_RETURN(out.lm_head, matrix("lm_head.weight"));
    }
    return out;
  }

 private:
  Expected<LayerWeights> layer(const std::string& name) {
    const std::string attention = name + "self_attn.";
    const std::string mlp = name + "mlp.";
    LayerWeights out;
    LOCKSTEP_ASSIGN_OR_RETURN(out.input_norm, vector({name + "input_layernorm.weight"}));
    LOCKSTEP_ASSIGN_OR_RETURN(
        out.qkv, projection({attention + "q_proj", attention + "k_proj", attention + "v_proj"}, spec_.qkv_bias));
    if (spec_.qk_norm) {
      LOCKSTEP_ASSIGN_OR_RETURN(out.q_norm, vector({attention + "q_norm.weight"}));
      LOCKSTEP_ASSIGN_OR_RETURN(out.k_norm, vector({attention + "k_norm.weight"}));
    }
    LOCKSTEP_ASSIGN_OR_RETURN(out.o, projection({attention + "o_proj"}, spec_.o_bias));
    LOCKSTEP_ASSIGN_OR_RETURN(out.post_attention_norm, vector({name + "post_attention_layernorm.weight"}));
    LOCKSTEP_ASSIGN_OR_RETURN(out.gate_up, projection({mlp + "gate_proj", mlp + "up_proj"}, /*bias=*/false));
    LOCKSTEP_ASSIGN_OR_RETURN(out.down, projection({mlp + "down_proj"}, /*bias=*/false));
    return out;
  }

  /// Stacks the tensors' rows; neighbours of one format share a matrix.
  Expected<Projection> projection(const std::vector<std::string>& names, bool bias) {
    std::vector<const TensorInfo*> tensors;
    for (const std::string& name : names) tensors.push_back(checkpoint_.find(name + ".weight"));
    Projection out;
    out.k = tensors.front()->shape[1];
    for (size_t begin = 0, end = 0; begin < tensors.size(); begin = end) {
      const WeightFormat format = format_of(tensors[begin]->dtype, mode_, Role::kLayer);
      while (end < tensors.size() && format_of(tensors[end]->dtype, mode_, Role::kLayer) == format) ++end;
      LOCKSTEP_ASSIGN_OR_RETURN(ops::Matrix stacked, stack({tensors.data() + begin, end - begin}, format));
      const int64_t rows = stacked.n();
      out.parts.push_back({std::move(stacked), out.n});
      out.n += rows;
    }
    if (bias) {
      std::vector<std::string> biases;
      for (const std::string& name : names) biases.push_back(name + ".bias");
      LOCKSTEP_ASSIGN_OR_RETURN(out.bias, vector(biases));
    }
    return out;
  }

  Expected<ops::Matrix> matrix(const std::string& name) {
    const TensorInfo* tensor = checkpoint_.find(name);
    return stack({&tensor, 1}, format_of(tensor->dtype, mode_, Role::kVocabulary));
  }

  Expected<ops::Matrix> stack(std::span<const TensorInfo* const> tensors, WeightFormat format) {
    int64_t rows = 0;
    for (const TensorInfo* tensor : tensors) rows += tensor->shape[0];
    LOCKSTEP_ASSIGN_OR_RETURN(
        ops::MatrixBuilder builder,
        ops::MatrixBuilder::create(format, rows, tensors.front()->shape[1], tensors.front()->name));
    int64_t first = 0;
    for (const TensorInfo* tensor : tensors) {
      LOCKSTEP_RETURN_IF_ERROR(add(builder, *tensor, first).with_context(tensor->file + ": tensor " + tensor->name));
      first += tensor->shape[0];
    }
    return std::move(builder).finish();
  }

  Status add(ops::MatrixBuilder& builder, const TensorInfo& tensor, int64_t first) {
    if (tensor.rows) return add_made(builder, tensor, first);
    const int64_t rows = tensor.shape[0];
    const int64_t row_bytes = *dtype_bytes(tensor.dtype, tensor.shape[1]);
    for (int64_t begin = 0; begin < rows; begin += kRowsAtATime) {
      const int64_t count = std::min(kRowsAtATime, rows - begin);
      sources_.clear();
      for (int64_t i = 0; i < count; ++i)
        sources_.push_back(tensor.data.data() + stored_row(tensor, begin + i) * row_bytes);
      LOCKSTEP_RETURN_IF_ERROR(builder.add_rows(ctx_, first + begin, tensor.dtype, sources_));
      report(count * row_bytes);
    }
    checkpoint_.release(tensor);
    return {};
  }

  /// Rows of quantised tensors are made in pieces of 16, which a thread packs next.
  Status add_made(ops::MatrixBuilder& builder, const TensorInfo& tensor, int64_t first) {
    const files::RowSource& source = *tensor.rows;
    const int64_t rows = tensor.shape[0];
    const int64_t row_bytes = source.row_bytes();
    const int64_t at_a_time = std::min(rows, kMadeRows);
    LOCKSTEP_ASSIGN_OR_RETURN(Buffer made, Buffer::allocate(at_a_time * row_bytes, tensor.name));
    for (int64_t begin = 0; begin < rows; begin += at_a_time) {
      const int64_t count = std::min(at_a_time, rows - begin);
      ctx_.pool->parallel_for(kernels::num_panels(count), [&](int64_t piece, int) {
        const int64_t from = piece * kernels::kPanelColumns;
        source.make_rows(begin + from, std::min(count - from, kernels::kPanelColumns), made.data() + from * row_bytes);
      });
      sources_.clear();
      for (int64_t i = 0; i < count; ++i) sources_.push_back(made.data() + i * row_bytes);
      LOCKSTEP_RETURN_IF_ERROR(builder.add_rows(ctx_, first + begin, tensor.dtype, sources_));
      report(source.stored_bytes() * (begin + count) / rows - source.stored_bytes() * begin / rows);
    }
    checkpoint_.release(tensor);
    return {};
  }

  /// Concatenates 1-dimensional tensors as f32.
  Expected<Vector> vector(const std::vector<std::string>& names) {
    Vector out;
    for (const std::string& name : names) out.size += checkpoint_.find(name)->shape[0];
    LOCKSTEP_ASSIGN_OR_RETURN(out.storage,
                              Buffer::allocate(out.size * static_cast<int64_t>(sizeof(float)), names.front()));
    float* to = out.storage.as<float>();
    for (const std::string& name : names) {
      const TensorInfo& tensor = *checkpoint_.find(name);
      for (int64_t i = 0; i < tensor.shape[0]; ++i) *to++ = read_float(tensor, stored_row(tensor, i));
      report(static_cast<int64_t>(tensor.data.size()));
      checkpoint_.release(tensor);
    }
    return out;
  }

  void report(int64_t bytes) {
    done_bytes_ += bytes;
    if (progress_) progress_(done_bytes_, total_bytes_);
  }

  const ops::Context& ctx_;
  const Checkpoint& checkpoint_;
  const DecoderSpec& spec_;
  WeightsMode mode_;
  const Progress& progress_;
  std::string prefix_;
  std::vector<const std::byte*> sources_;
  int64_t done_bytes_ = 0;
  int64_t total_bytes_ = 0;
};

}  // namespace

int64_t DecoderWeights::bytes() const {
  int64_t sum = embedding.bytes() + lm_head.bytes() + final_norm.bytes();
  for (const LayerWeights& layer : layers) {
    sum += layer.input_norm.bytes() + layer.qkv.bytes() + layer.q_norm.bytes() + layer.k_norm.bytes() +
           layer.o.bytes() + layer.post_attention_norm.bytes() + layer.gate_up.bytes() + layer.down.bytes();
  }
  return sum;
}

Expected<DecoderWeights> load_decoder(const ops::Context& ctx, const Checkpoint& checkpoint, const DecoderSpec& spec,
                                      WeightsMode mode, const Progress& progress) {
  LOCKSTEP_RETURN_IF_ERROR(check_tensors(checkpoint, spec));
  LOCKSTEP_ASSIGN_OR_RETURN(const bool again, quantises_again(checkpoint, spec, mode));
  if (again) {
    log_warning("{}: the model is quantised already; its weights go through f32 and are rounded a second time to {}",
                checkpoint.path(), to_string(mode));
  }
  for (const TensorSpec& tensor : required_tensors(checkpoint.config(), spec, name_prefix(checkpoint))) {
    const files::TensorInfo& found = *checkpoint.find(tensor.name);
    if (!found.rows || found.rows->stored() != "f8_e4m3") continue;
    log_info("{}: FP8 weights are widened to bf16 while loading; activations are not quantised", checkpoint.path());
    break;
  }
  return DecoderLoader(ctx, checkpoint, spec, mode, progress).run();
}

}  // namespace lockstep::loader
