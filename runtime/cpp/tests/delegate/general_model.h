#pragma once

#include <algorithm>
#include <vector>

#include "tests/delegate/program_builder.h"

namespace thimble::test {

/// A decoder of what the op list allows beyond a Llama: a scaled embedding, norms before and after,
/// with a weight and without, a window, a soft cap and sinks in one of two layers, two rotary
/// tables, gates by gelu, attention to the keys and values of both layers, some columns of a
/// linear, layer norms of rows and of heads, xIELU, a product with a number for each part of a row,
/// a soft cap on the logits. Told in one op for each step, or fused as far as it goes: the same
/// numbers, and the same bits.
class GeneralModel : public ProgramBuilder {
 public:
  static constexpr size_t kHidden = 36, kHeads = 6, kKeyValueHeads = 3, kHeadDim = 12;
  static constexpr size_t kIntermediate = 40, kVocabulary = 100, kContext = 700, kWindow = 50;
  static constexpr float kSoftCap = 3;

  enum class Form { kPlain, kFused };

  explicit GeneralModel(Form form) : fused_(form == Form::kFused) {
    hidden_ = add_slot(kHidden);
    add_op(
        cpu::EmbeddingOp{add_weight(kVocabulary, kHidden, kernels::WeightFormat::kInt8), hidden_});
    add_op(cpu::ElementwiseOp{kernels::Function::kScale, hidden_, 0, hidden_, 6});
    add_layer(kWindow, kernels::Function::kGeluTanh);
    add_layer(0, kernels::Function::kGelu);
    add_shared_attention(0, kWindow);
    add_shared_attention(1, 0);
    add_columns();
    add_op(cpu::LayerNormOp{hidden_, hidden_, add_floats(kHidden, 1, 0.2f),
                            add_floats(kHidden, 0, 0.5f), kEps, 1});
    add_op(cpu::LayerNormOp{hidden_, hidden_, {}, {}, kEps, 2});
    const uint32_t gates = add_slot(kParts);
    add_op(linear(hidden_, gates, add_weight(reals(kParts * kHidden, 0.2f), kHidden)));
    add_op(cpu::XieluOp{hidden_, hidden_, 0.8f, 0.9f, 0.5f});
    add_op(cpu::ElementwiseOp{kernels::Function::kMultiply, hidden_, gates, hidden_, 0});
    const cpu::Floats norm = add_floats(kHidden, 1, 0.2f);
    const uint32_t head = add_weight(reals(kVocabulary * kHidden, 0.2f), kHidden);
    const uint32_t logits = add_slot(kVocabulary);
    if (fused_) {
      cpu::LinearOp last = linear(hidden_, logits, head);
      last.norm = norm;
      last.last_row = true;
      add_op(last);
    } else {
      const uint32_t last = add_slot(kHidden), normed = add_slot(kHidden);
      add_op(cpu::SelectLastOp{hidden_, last});
      add_op(cpu::NormOp{last, normed, norm, kEps, 1});
      add_op(linear(normed, logits, head));
    }
    add_op(cpu::ElementwiseOp{kernels::Function::kSoftCap, logits, 0, logits, kSoftCap});
    program.outputs.push_back({cpu::Role::kRows, logits});
  }

 private:
  static constexpr float kEps = 1e-5f;
  static constexpr size_t kParts = 4;
  static constexpr size_t kQueries = kHeads * kHeadDim, kKeys = kKeyValueHeads * kHeadDim;

  void add_layer(size_t window, kernels::Function activation) {
    add_attention(window);
    add_mlp(activation);
  }

  void add_attention(size_t window) {
    const cpu::Floats norm = add_floats(kHidden, 1, 0.2f);
    const std::vector<float> queries = reals(kQueries * kHidden, 0.2f);
    const std::vector<float> keys = reals(kKeys * kHidden, 0.2f);
    const std::vector<float> values = reals(kKeys * kHidden, 0.2f);
    const uint32_t output = add_slot(kQueries);
    cpu::AttentionOp attention{};
    attention.output = output;
    attention.num_attention_heads = kHeads;
    attention.cache = static_cast<uint32_t>(program.caches.size());
    attention.scale = 0.3f;
    attention.window = static_cast<uint32_t>(window);
    if (window > 0) {
      attention.soft_cap = 2;
      attention.sinks = add_floats(kHeads, 0, 1);
    }
    program.caches.push_back(
        {"layers." + std::to_string(attention.cache), kKeyValueHeads, kHeadDim, kContext});
    const cpu::Floats query_norm = add_floats(kHeadDim, 1, 0.2f);
    const cpu::Floats key_norm = add_floats(kHeadDim, 1, 0.2f);
    const cpu::Floats cosines = add_floats(kContext * kHeadDim / 2, 0, 1);
    const cpu::Floats sines = add_floats(kContext * kHeadDim / 2, 0, 1);
    if (fused_) {
      std::vector<float> all = queries;
      all.insert(all.end(), keys.begin(), keys.end());
      all.insert(all.end(), values.begin(), values.end());
      const uint32_t qkv = add_slot(kQueries + 2 * kKeys);
      cpu::LinearOp projection = linear(hidden_, qkv, add_weight(all, kHidden));
      projection.norm = norm;
      add_op(projection);
      attention.query = attention.key = attention.value = qkv;
      attention.key_offset = kQueries;
      attention.value_offset = kQueries + kKeys;
      attention.query_norm = query_norm;
      attention.key_norm = key_norm;
      attention.norm_eps = kEps;
      attention.cosines = cosines;
      attention.sines = sines;
    } else {
      const uint32_t normed = add_slot(kHidden), query = add_slot(kQueries);
      const uint32_t rotated = add_slot(kQueries), key = add_slot(kKeys), value = add_slot(kKeys);
      add_op(cpu::NormOp{hidden_, normed, norm, kEps, 1});
      add_op(linear(normed, query, add_weight(queries, kHidden)));
      add_op(linear(normed, key, add_weight(keys, kHidden)));
      add_op(linear(normed, value, add_weight(values, kHidden)));
      add_op(cpu::NormOp{query, query, query_norm, kEps, kHeads});
      add_op(cpu::NormOp{key, key, key_norm, kEps, kKeyValueHeads});
      add_op(cpu::RotateOp{query, rotated, kHeads, cosines, sines});
      add_op(cpu::RotateOp{key, key, kKeyValueHeads, cosines, sines});
      attention.query = rotated;
      attention.key = key;
      attention.value = value;
    }
    add_op(attention);
    const uint32_t back = add_slot(kHidden);
    add_op(linear(output, back, add_weight(reals(kHidden * kQueries, 0.2f), kQueries)));
    add_op(cpu::NormOp{back, back, add_floats(kHidden, 1, 0.2f), kEps, 1});
    add_op(cpu::ElementwiseOp{kernels::Function::kAdd, hidden_, back, hidden_, 0});
  }

  /// Attention to the keys and values of an earlier layer.
  void add_shared_attention(uint32_t cache, size_t window) {
    const cpu::Floats norm = add_floats(kHidden, 1, 0.2f);
    const uint32_t queries = add_weight(reals(kQueries * kHidden, 0.2f), kHidden);
    const uint32_t query = add_slot(kQueries), output = add_slot(kQueries);
    cpu::SharedAttentionOp attention{};
    attention.query = query;
    attention.output = output;
    attention.num_attention_heads = kHeads;
    attention.cache = cache;
    attention.scale = 0.3f;
    attention.window = static_cast<uint32_t>(window);
    attention.soft_cap = window > 0 ? 2 : 0;
    const cpu::Floats query_norm = add_floats(kHeadDim, 1, 0.2f);
    const cpu::Floats cosines = add_floats(kContext * kHeadDim / 2, 0, 1);
    const cpu::Floats sines = add_floats(kContext * kHeadDim / 2, 0, 1);
    if (fused_) {
      cpu::LinearOp projection = linear(hidden_, query, queries);
      projection.norm = norm;
      add_op(projection);
      attention.query_norm = query_norm;
      attention.norm_eps = kEps;
      attention.cosines = cosines;
      attention.sines = sines;
    } else {
      const uint32_t normed = add_slot(kHidden), rotated = add_slot(kQueries);
      add_op(cpu::NormOp{hidden_, normed, norm, kEps, 1});
      add_op(linear(normed, query, queries));
      add_op(cpu::NormOp{query, query, query_norm, kEps, kHeads});
      add_op(cpu::RotateOp{query, rotated, kHeads, cosines, sines});
      attention.query = rotated;
    }
    add_op(attention);
    const uint32_t back = add_slot(kHidden);
    add_op(linear(output, back, add_weight(reals(kHidden * kQueries, 0.2f), kQueries)));
    add_op(cpu::ElementwiseOp{kernels::Function::kAdd, hidden_, back, hidden_, 0});
  }

  /// Some columns of what a linear makes.
  void add_columns() {
    const uint32_t wide = add_slot(2 * kHidden), some = add_slot(kHidden);
    add_op(linear(hidden_, wide, add_weight(reals(2 * kHidden * kHidden, 0.2f), kHidden)));
    add_op(cpu::ColumnsOp{wide, some, 8});
    add_op(cpu::ElementwiseOp{kernels::Function::kAdd, hidden_, some, hidden_, 0});
  }

  void add_mlp(kernels::Function activation) {
    const cpu::Floats norm = add_floats(kHidden, 1, 0.2f);
    const std::vector<float> gates = reals(kIntermediate * kHidden, 0.4f);
    const std::vector<float> ups = reals(kIntermediate * kHidden, 0.4f);
    const uint32_t both = add_slot(kIntermediate);
    if (fused_) {
      cpu::LinearOp gate_up = linear(hidden_, both, add_weight(in_turns(gates, ups), kHidden));
      gate_up.norm = norm;
      gate_up.gated = true;
      gate_up.activation = kernels::Function::kSilu;
      gate_up.activation = activation;
      add_op(gate_up);
    } else {
      const uint32_t normed = add_slot(kHidden), gate = add_slot(kIntermediate);
      const uint32_t up = add_slot(kIntermediate);
      add_op(cpu::NormOp{hidden_, normed, norm, kEps, 1});
      add_op(linear(normed, gate, add_weight(gates, kHidden)));
      add_op(linear(normed, up, add_weight(ups, kHidden)));
      if (activation == kernels::Function::kGelu) {
        add_op(cpu::ElementwiseOp{activation, gate, 0, gate, 0});
        add_op(cpu::ElementwiseOp{kernels::Function::kMultiply, gate, up, both, 0});
      } else {
        add_op(cpu::GluOp{gate, up, both, activation});
      }
    }
    const uint32_t down = add_slot(kHidden);
    add_op(linear(both, down, add_weight(reals(kHidden * kIntermediate, 0.2f), kIntermediate)));
    add_op(cpu::NormOp{down, down, {}, kEps, 1});
    add_op(cpu::ElementwiseOp{kernels::Function::kAdd, down, hidden_, hidden_, 0});
  }

  /// 16 rows of the one, 16 of the other, and so on; zeros behind the last.
  static std::vector<float> in_turns(const std::vector<float>& gates,
                                     const std::vector<float>& ups) {
    constexpr size_t kBlock = kernels::kBlockRows * kHidden;
    std::vector<float> rows;
    for (size_t first = 0; first < gates.size(); first += kBlock) {
      for (const std::vector<float>* part : {&gates, &ups}) {
        const size_t last = std::min(first + kBlock, part->size());
        rows.insert(rows.end(), part->begin() + static_cast<std::ptrdiff_t>(first),
                    part->begin() + static_cast<std::ptrdiff_t>(last));
        rows.resize(rows.size() + first + kBlock - last);
      }
    }
    return rows;
  }

  const bool fused_;
  uint32_t hidden_ = 0;
};

}  // namespace thimble::test
