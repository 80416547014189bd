#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "delegate/cpu/executor.h"
#include "tests/delegate/program_builder.h"

namespace thimble::test {

/// A decoder of two layers with random numbers in every format, of sizes that nothing divides: the
/// first layer fused, the second not.
class RandomModel : public ProgramBuilder {
 public:
  static constexpr size_t kHidden = 72, kHeads = 6, kKeyValueHeads = 3, kHeadDim = 12;
  static constexpr size_t kIntermediate = 40, kVocabulary = 100, kContext = 700;

  /// \param all_rows hands out the last hidden state of every token as well.
  /// \param original the longest text that uses the first of two rotary tables; 0: there is one.
  explicit RandomModel(bool all_rows = false, size_t original = 0) {
    using kernels::WeightFormat;
    program.original = original;
    hidden_ = add_slot(kHidden);
    const uint32_t embedding = add_weight(kVocabulary, kHidden, WeightFormat::kInt8);
    add_op(cpu::EmbeddingOp{embedding, hidden_});
    add_fused_layer();
    add_plain_layer();
    const uint32_t logits = add_slot(kVocabulary);
    cpu::LinearOp head = linear(hidden_, logits, embedding);
    head.norm = add_floats(kHidden, 1, 0.2f);
    head.last_row = true;
    add_op(head);
    program.outputs.push_back({cpu::Role::kRows, logits});
    if (all_rows) program.outputs.push_back({cpu::Role::kRows, hidden_});
  }

 private:
  /// Attention between a linear of queries, keys and values, and one that adds to the residual.
  void add_attention(kernels::WeightFormat format, bool with_head_norms) {
    constexpr size_t kQueries = kHeads * kHeadDim, kKeys = kKeyValueHeads * kHeadDim;
    const uint32_t qkv = add_slot(kQueries + 2 * kKeys), output = add_slot(kQueries);
    cpu::LinearOp projection =
        linear(hidden_, qkv, add_weight(kQueries + 2 * kKeys, kHidden, format));
    projection.norm = add_floats(kHidden, 1, 0.2f);
    projection.bias = add_floats(kQueries + 2 * kKeys, 0, 0.1f);
    add_op(projection);
    const auto cache = static_cast<uint32_t>(program.caches.size());
    program.caches.push_back(
        {"layers." + std::to_string(cache), kKeyValueHeads, kHeadDim, kContext});
    cpu::AttentionOp attention{};
    attention.query = attention.key = attention.value = qkv;
    attention.key_offset = kQueries;
    attention.value_offset = kQueries + kKeys;
    attention.output = output;
    attention.num_attention_heads = kHeads;
    attention.cache = cache;
    attention.scale = 0.3f;
    attention.norm_eps = 1e-5f;
    if (with_head_norms) {
      attention.query_norm = add_floats(kHeadDim, 1, 0.2f);
      attention.key_norm = add_floats(kHeadDim, 1, 0.2f);
    }
    const size_t angles = program.original + kContext;
    attention.cosines = attention.sines = add_floats(angles * kHeadDim / 2, 0, 1);
    add_op(attention);
    cpu::LinearOp back = linear(output, hidden_, add_weight(kHidden, kQueries, format));
    back.accumulate = true;
    add_op(back);
  }

  void add_fused_layer() {
    using kernels::WeightFormat;
    add_attention(WeightFormat::kInt4TwoLevel, true);
    const uint32_t mlp = add_slot(kIntermediate);
    const size_t rows = 2 * kernels::round_up(kIntermediate, kernels::kBlockRows);
    cpu::LinearOp gate_up = linear(hidden_, mlp, add_weight(rows, kHidden, WeightFormat::kInt4));
    gate_up.norm = add_floats(kHidden, 1, 0.2f);
    gate_up.gated = true;
    gate_up.activation = kernels::Function::kSilu;
    add_op(gate_up);
    cpu::LinearOp down =
        linear(mlp, hidden_, add_weight(kHidden, kIntermediate, WeightFormat::kInt6TwoLevel));
    down.accumulate = true;
    add_op(down);
  }

  void add_plain_layer() {
    using kernels::WeightFormat;
    add_attention(WeightFormat::kFloat32, false);
    const uint32_t normed = add_slot(kHidden), gate = add_slot(kIntermediate);
    const uint32_t up = add_slot(kIntermediate), both = add_slot(kIntermediate);
    const uint32_t down = add_slot(kHidden);
    add_op(cpu::NormOp{hidden_, normed, add_floats(kHidden, 1, 0.2f), 1e-5f, 1});
    add_op(linear(normed, gate, add_weight(kIntermediate, kHidden, WeightFormat::kInt8Groups)));
    cpu::LinearOp second =
        linear(normed, up, add_weight(kIntermediate, kHidden, WeightFormat::kInt4));
    second.prepared = true;
    add_op(second);
    add_op(cpu::GluOp{gate, up, both, kernels::Function::kSilu});
    add_op(linear(both, down, add_weight(kHidden, kIntermediate, WeightFormat::kInt5TwoLevel)));
    add_op(cpu::ElementwiseOp{kernels::Function::kAdd, hidden_, down, hidden_, 0});
  }

  uint32_t hidden_ = 0;
};

/// A model loaded in a session of its own, or in that of another.
class LoadedModel {
 public:
  LoadedModel(const ProgramBuilder& model, const kernels::Variant& kernels, int32_t threads,
              int32_t cache_type = THIMBLE_CACHE_DEFAULT) {
    const thimble_session_options options{threads, cache_type, 0};
    char error[200] = "";
    if (thimble_session_open(&options, &own_session_, error, sizeof(error)) != 0) std::abort();
    session_ = own_session_;
    load(model, kernels);
    if (executor_ == nullptr) std::abort();
  }
  /// After which error() may say why it cannot be.
  LoadedModel(const ProgramBuilder& model, const kernels::Variant& kernels,
              const LoadedModel& other)
      : session_(other.session_) {
    load(model, kernels);
  }
  ~LoadedModel() {
    executor_.reset();
    if (own_session_ != 0) thimble_session_close(own_session_);
  }
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  int32_t session() const { return session_; }
  cpu::CpuExecutor& executor() { return *executor_; }

  /// The logits of the last of some tokens; empty after an error.
  std::vector<float> run(const std::vector<int64_t>& tokens, int64_t start_pos) {
    return run(tokens, start_pos, cpu::find_session(session_)->current());
  }
  /// The same in a cache that need not be the current one.
  std::vector<float> run(const std::vector<int64_t>& tokens, int64_t start_pos, int32_t cache) {
    return run({{cache, start_pos, tokens.size()}}, tokens, nullptr);
  }
  /// The first output of a call of several segments, the logits of the last row.
  /// \param logits gets those of all rows that get any, unless null.
  std::vector<float> run(const std::vector<cpu::Segment>& segments,
                         const std::vector<int64_t>& tokens, float* logits) {
    const cpu::Program& program = executor_->program();
    cpu::Call call;
    call.segments = segments;
    call.rows = tokens.size();
    call.tokens = tokens.data();
    call.logits = logits;
    call.inputs.resize(program.inputs.size(), nullptr);
    std::vector<std::vector<float>> outputs;
    for (size_t i = 0; i < program.outputs.size(); ++i) {
      const size_t width = program.slots[program.outputs[i].slot].width;
      outputs.emplace_back(cpu::output_rows(program, i, tokens.size()) * width);
      call.outputs.push_back(outputs.back().data());
    }
    Status status = executor_->check(call);
    if (status.ok()) status = executor_->run(call);
    error_ = status.message();
    return status.ok() ? outputs[0] : std::vector<float>();
  }
  const std::string& error() const { return error_; }

 private:
  void load(const ProgramBuilder& model, const kernels::Variant& kernels) {
    cpu::Program program = model.program;
    if (!cpu::check_program(&program).ok()) std::abort();
    auto executor =
        cpu::CpuExecutor::create(std::move(program), kernels, model.packed(), model.floats.data(),
                                 cpu::find_session(session_), model.adapters());
    error_ = executor.message();
    if (executor.ok()) executor_ = std::move(*executor);
  }

  int32_t own_session_ = 0;
  int32_t session_ = 0;
  std::unique_ptr<cpu::CpuExecutor> executor_;
  std::string error_;
};

/// `count` tokens that look random.
inline std::vector<int64_t> random_tokens(size_t count) {
  Numbers numbers(3);
  std::vector<int64_t> tokens(count);
  for (int64_t& token : tokens) {
    token = numbers.between(0, static_cast<int32_t>(RandomModel::kVocabulary) - 1);
  }
  return tokens;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && !a.empty() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace thimble::test
