#pragma once

/// \file
/// Rows of attention on their way through the positions, a tile of them at a
/// time.

#include <cfloat>
#include <cstring>

#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/activations.h"
#include "kernels/shared/cache.h"
#include "kernels/shared/exponential.h"
#include "kernels/shared/lanes.h"

namespace thimble::kernels::THIMBLE_VARIANT {

constexpr float kLog2OfE = 0x1.715476p+0f;

/// The state of a row, attention_state_size() floats: outputs not yet divided, lanes of the sum of
/// weights, and the maximum in every lane.
class RowState {
 public:
  RowState(float* floats, size_t head_dim)
      : floats_(floats), padded_dim_(round_up(head_dim, kLanes)) {}

  float* outputs() const { return floats_; }
  float* sums() const { return floats_ + padded_dim_; }
  float* largest() const { return sums() + kLanes; }

  void clear() const {
    for (float* lanes = floats_; lanes != largest(); lanes += kLanes) store(lanes, broadcast(0.0f));
    store(largest(), broadcast(-FLT_MAX));
  }

  /// Adds the state of positions that follow.
  void merge(const RowState& next) const {
    const F32x16 mine = load(largest()), other = load(next.largest());
    const F32x16 highest = max(other, mine);
    const F32x16 keep = exponential2(sub(mine, highest)), take = exponential2(sub(other, highest));
    for (size_t i = 0; i < padded_dim_ + kLanes; i += kLanes)
      store(floats_ + i, fused(load(next.floats_ + i), take, mul(load(floats_ + i), keep)));
    store(largest(), highest);
  }

  /// Adds a score, in units of log(2), without a value.
  void add_sink(float score) const {
    const F32x16 mine = load(largest()), other = broadcast(score);
    const F32x16 highest = max(other, mine);
    const F32x16 keep = exponential2(sub(mine, highest)), take = exponential2(sub(other, highest));
    for (size_t i = 0; i < padded_dim_ + kLanes; i += kLanes)
      store(floats_ + i, mul(load(floats_ + i), keep));
    alignas(kLineBytes) float weight[kLanes];
    store(weight, take);
    sums()[0] += weight[0];
    store(largest(), highest);
  }

 private:
  float* floats_;
  size_t padded_dim_;
};

/// Up to kLanes query rows of a group and their weights in a tile; compiled once for all sizes of
/// groups and types of caches.
class RowWeights {
 public:
  /// \param args, first, count which rows; a row of the group that is not one of them repeats the
  /// last. \param states, weights room for `rows` rows' states, and rows * kAttentionTile floats.
  void start(const AttentionArgs& args, size_t first, size_t count, size_t rows, float* states,
             float* weights) {
    rows_ = rows;
    head_dim_ = args.head_dim;
    cap_ = args.soft_cap * kLog2OfE;
    states_ = states;
    weights_ = weights;
    for (size_t r = 0; r < rows; ++r) {
      const size_t token = (first + (r < count ? r : count - 1)) / args.heads;
      first_[r] = attention_first(args.start_pos + token, args.window);
      visible_[r] = args.visible(token);
    }
  }

  void start_split() {
    for (size_t r = 0; r < rows_; ++r) state(r).clear();
    for (float& largest : largest_) largest = -FLT_MAX;
  }

  void end_split() const {
    for (size_t r = 0; r < rows_; ++r) store(state(r).largest(), broadcast(largest_[r]));
  }

  /// Positions that some row attends to.
  size_t first() const { return first_[0]; }
  size_t end() const { return visible_[rows_ - 1]; }

  RowState state(size_t r) const {
    return {states_ + r * attention_state_size(head_dim_), head_dim_};
  }
  float* weights() const { return weights_; }
  size_t head_dim() const { return head_dim_; }
  /// What the states so far are to be multiplied by, row after row.
  const float* factor() const { return factor_; }

  /// Turns the scores of `blocks` * 16 positions into 2^(score - maximum), 0 where a row must not
  /// attend.
  [[gnu::noinline]] void soften(size_t start, size_t blocks) {
    if (cap_ != 0) cap(blocks);
    alignas(kLineBytes) float largest[kLanes] = {};
    const bool hides_first = first_[rows_ - 1] > start;
    for (size_t r = 0; r < rows_; ++r) {
      float* weights = weights_ + r * kAttentionTile;
      for (size_t i = 0; hides_first && i < unseen(r, start, blocks); ++i) weights[i] = -FLT_MAX;
      for (size_t i = seen(r, start); i < blocks * kLanes; ++i) weights[i] = -FLT_MAX;
      F32x16 highest = broadcast(largest_[r]);
      for (size_t b = 0; b < blocks; ++b) highest = max(load(weights + b * kLanes), highest);
      largest[r] = lane_max(highest);
    }
    store(factor_, exponential2(sub(load(largest_), load(largest))));
    std::memcpy(largest_, largest, sizeof largest_);
    for (size_t r = 0; r < rows_; ++r) {
      float* weights = weights_ + r * kAttentionTile;
      const F32x16 highest = broadcast(largest[r]);
      F32x16 sum = mul(load(state(r).sums()), broadcast(factor_[r]));
      for (size_t b = 0; b < blocks; ++b) {
        const F32x16 weight = exponential2(sub(load(weights + b * kLanes), highest));
        store(weights + b * kLanes, weight);
        sum = add(sum, weight);
      }
      if (hides_first || seen(r, start) < blocks * kLanes) sum = hide(r, start, blocks);
      store(state(r).sums(), sum);
    }
  }

 private:
  /// Applies cap * tanh(score / cap) to the scores of `blocks` * 16 positions.
  void cap(size_t blocks) {
    const F32x16 most = broadcast(cap_);
    for (size_t r = 0; r < rows_; ++r) {
      float* scores = weights_ + r * kAttentionTile;
      for (size_t i = 0; i < blocks * kLanes; i += kLanes)
        store(scores + i, mul(most, tanh(div(load(scores + i), most))));
    }
  }

  /// Sets the weights that row r does not see to 0; returns the lanes of the sum of the others.
  F32x16 hide(size_t r, size_t start, size_t blocks) {
    float* weights = weights_ + r * kAttentionTile;
    for (size_t i = 0; i < unseen(r, start, blocks); ++i) weights[i] = 0;
    for (size_t i = seen(r, start); i < blocks * kLanes; ++i) weights[i] = 0;
    F32x16 sum = mul(load(state(r).sums()), broadcast(factor_[r]));
    for (size_t b = 0; b < blocks; ++b) sum = add(sum, load(weights + b * kLanes));
    return sum;
  }

  /// Positions from `start` on, in some blocks, before row r's window.
  size_t unseen(size_t r, size_t start, size_t blocks) const {
    if (first_[r] <= start) return 0;
    const size_t count = first_[r] - start;
    return count < blocks * kLanes ? count : blocks * kLanes;
  }

  /// Positions from `start` on that row r may attend to, if it sees the first.
  size_t seen(size_t r, size_t start) const {
    return visible_[r] > start ? visible_[r] - start : 0;
  }

  size_t rows_, head_dim_;
  float* states_;   // [rows]
  float* weights_;  // [rows][kAttentionTile]
  size_t first_[kLanes], visible_[kLanes];
  float cap_;  // of scores, in units of log(2); 0: none
  float largest_[kLanes], factor_[kLanes];
};

/// kRows query rows, of which `count` are used. A row is a head of a token;
/// rows follow each other, heads first. `Products` multiplies them by keys and values.
template <size_t kRows, typename Products>
class RowGroup : public RowWeights {
 public:
  /// \param query, states room for kRows rows' queries and states.
  /// \param weights room for kRows * kAttentionTile floats, shared by all
  /// groups.
  void start(const AttentionArgs& args, size_t first, size_t count, float* query, float* states,
             float* weights) {
    RowWeights::start(args, first, count, kRows, states, weights);
    products_.start(args.head_dim, query);
    for (size_t r = 0; r < kRows; ++r) {
      const size_t row = first + (r < count ? r : count - 1);
      const float* q = args.q + row / args.heads * args.q_stride + row % args.heads * args.head_dim;
      products_.take_query(r, q, args.scale * kLog2OfE);
    }
  }

  /// Adds the tile of positions from `start` on, except the blocks that no row attends to.
  template <typename Keys, typename Values>
  void add_tile(size_t start, const Keys& keys, const Values& values) {
    const size_t tile_end = start + kAttentionTile;
    if (start >= end() || first() >= tile_end) return;
    const size_t unseen = first() > start ? (first() - start) / kLanes : 0;
    start += unseen * kLanes;
    const size_t positions = (end() < tile_end ? end() : tile_end) - start;
    const size_t blocks = divide_up(positions, kLanes);
    products_.score(keys.behind(unseen), blocks, weights());
    soften(start, blocks);
    products_.mix(values.behind(unseen), positions, weights(), factor(), state(0).outputs(),
                  attention_state_size(head_dim()));
  }

 private:
  Products products_;
};

}  // namespace thimble::kernels::THIMBLE_VARIANT
