#pragma once

#include "tests/delegate/program_builder.h"

namespace thimble::test {

/// A decoder of four layers, of sizes that nothing divides: a short convolution, attention, a
/// short convolution, a gated delta rule.
class HybridModel : public ProgramBuilder {
 public:
  static constexpr size_t kHidden = 36, kHeads = 6, kKeyValueHeads = 3, kHeadDim = 12, kTaps = 4;
  static constexpr kernels::DeltaShape kDelta{4, 6, 10};
  static constexpr size_t kVocabulary = 100, kContext = 700;

  HybridModel() {
    hidden_ = add_slot(kHidden);
    add_op(
        cpu::EmbeddingOp{add_weight(kVocabulary, kHidden, kernels::WeightFormat::kInt8), hidden_});
    add_convolution();
    add_attention();
    add_convolution();
    add_delta();
    const uint32_t logits = add_slot(kVocabulary);
    cpu::LinearOp head =
        linear(hidden_, logits, add_weight(reals(kVocabulary * kHidden, 0.2f), kHidden));
    head.norm = add_floats(kHidden, 1, 0.2f);
    head.last_row = true;
    add_op(head);
    program.outputs.push_back({cpu::Role::kRows, logits});
  }

 private:
  void add_convolution() {
    const uint32_t parts = add_slot(3 * kHidden), mixed = add_slot(kHidden);
    add_projection(parts, 3 * kHidden);
    const auto state = static_cast<uint32_t>(program.states.size());
    program.states.push_back({"conv." + std::to_string(state), kTaps - 1, kHidden});
    add_op(cpu::ConvolutionOp{parts, mixed, state, add_floats(kTaps * kHidden, 0, 1),
                              add_floats(state * kHidden, 0, 0.3f)});  // the first has no bias
    add_end(mixed, kHidden);
  }

  void add_delta() {
    constexpr size_t kKeyHeads = 2, kValues = kDelta.heads * kDelta.value_dim;
    constexpr size_t kMixed = 2 * kKeyHeads * kDelta.key_dim + kValues;
    const uint32_t qkv = add_slot(kMixed), a = add_slot(kDelta.heads), b = add_slot(kDelta.heads);
    const uint32_t output = add_slot(kValues);
    add_projection(qkv, kMixed);
    add_projection(a, kDelta.heads);
    add_projection(b, kDelta.heads);
    const auto inputs = static_cast<uint32_t>(program.states.size());
    program.states.push_back({"delta", kTaps - 1, kMixed});
    program.states.push_back({"delta 2", 1, kDelta.heads * kDelta.matrix()});
    add_op(cpu::DeltaOp{qkv, a, b, output, inputs, inputs + 1, kKeyHeads, kDelta.key_dim,
                        kDelta.heads, kDelta.value_dim, add_floats(kTaps * kMixed, 0, 1),
                        add_floats(kDelta.heads, -1, 1), add_floats(kDelta.heads, 0, 1)});
    add_end(output, kValues);
  }

  void add_attention() {
    constexpr size_t kQueries = kHeads * kHeadDim, kKeys = kKeyValueHeads * kHeadDim;
    const uint32_t qkv = add_slot(kQueries + 2 * kKeys), output = add_slot(kQueries);
    add_projection(qkv, kQueries + 2 * kKeys);
    program.caches.push_back({"attention", kKeyValueHeads, kHeadDim, kContext});
    cpu::AttentionOp attention{};
    attention.query = attention.key = attention.value = qkv;
    attention.key_offset = kQueries;
    attention.value_offset = kQueries + kKeys;
    attention.output = output;
    attention.num_attention_heads = kHeads;
    attention.scale = 0.3f;
    attention.cosines = attention.sines = add_floats(kContext * kHeadDim / 2, 0, 1);
    add_op(attention);
    add_end(output, kQueries);
  }

  void add_projection(uint32_t output, size_t rows) {
    cpu::LinearOp projection =
        linear(hidden_, output, add_weight(rows, kHidden, kernels::WeightFormat::kInt4TwoLevel));
    projection.norm = add_floats(kHidden, 1, 0.2f);
    add_op(projection);
  }

  void add_end(uint32_t input, size_t columns) {
    cpu::LinearOp end =
        linear(input, hidden_, add_weight(kHidden, columns, kernels::WeightFormat::kInt8));
    end.accumulate = true;
    add_op(end);
  }

  uint32_t hidden_ = 0;
};

}  // namespace thimble::test
