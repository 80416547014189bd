#include <algorithm>
#include <cmath>

#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/activations.h"
#include "kernels/shared/functions.h"
#include "kernels/shared/lanes.h"

namespace thimble::kernels::THIMBLE_VARIANT {
namespace {

constexpr size_t kChains = 4;  // of one sum, so that none waits for the other
constexpr float kEps = 1e-6f;  // of the norms of queries and keys

/// log(1 + exp(x)): max(x, 0) + log(1 + y) of y = exp(-|x|), which is 2 artanh(y / (2 + y)); the
/// series' remainder is below 2^-29 of it.
F32x16 softplus(F32x16 x) {
  const F32x16 zero = broadcast(0.0f), size = max(negative(x), x);
  const F32x16 y = exponential(negative(size));
  const F32x16 s = div(y, add(y, broadcast(2.0f))), square = mul(s, s);
  constexpr float kSeries[] = {2.0f / 15, 2.0f / 13, 2.0f / 11, 2.0f / 9,
                               2.0f / 7,  2.0f / 5,  2.0f / 3,  2.0f};
  F32x16 sum = broadcast(2.0f / 17);
  for (float coefficient : kSeries) sum = fused(sum, square, broadcast(coefficient));
  return fused(sum, s, max(zero, x));
}

/// y = x / sqrt(sum of squares + eps) * scale. The sum: 16 fused chains, added as lane_sum() does.
void normalize(const float* x, size_t n, float scale, float* y) {
  F32x16 squares = broadcast(0.0f);
  for (size_t i = 0; i < n; i += kLanes) {
    const F32x16 value = n - i < kLanes ? load_some(x + i, n - i) : load(x + i);
    squares = fused(value, value, squares);
  }
  const F32x16 factor = broadcast(scale / std::sqrt(lane_sum(squares) + kEps));
  for (size_t i = 0; i < n; i += kLanes) {
    if (n - i < kLanes) {
      store_some(y + i, mul(load_some(x + i, n - i), factor), n - i);
    } else {
      store(y + i, mul(load(x + i), factor));
    }
  }
}

/// What one row of a head does to its state, besides its values.
struct Row {
  const float* query;  ///< [key_dim]
  const float* key;
  float decay, beta;
  float* step;  ///< where it is kept, or null
};

F32x16 sum_of(const F32x16* chains) {
  return add(add(chains[0], chains[1]), add(chains[2], chains[3]));
}

/// A number of S after a step, in 16 columns.
F32x16 stepped(F32x16 decay, const float* state, float key, F32x16 delta) {
  return fused(broadcast(key), delta, mul(decay, load(state)));
}

/// One row's part in 16 columns of the state from `column` on, [key_dim][16]; returns its 16
/// outputs.
F32x16 advance(const Row& row, F32x16 value, size_t key_dim, size_t column, float* state) {
  F32x16 kept[kChains], out[kChains];
  for (size_t chain = 0; chain < kChains; ++chain) kept[chain] = out[chain] = broadcast(0.0f);
  size_t i = 0;
  for (; i + kChains <= key_dim; i += kChains) {
    for (size_t chain = 0; chain < kChains; ++chain) {
      const F32x16 key = broadcast(row.key[i + chain]);
      kept[chain] = fused(key, load(state + (i + chain) * kLanes), kept[chain]);
    }
  }
  for (size_t chain = 0; i < key_dim; ++i, ++chain) {
    kept[chain] = fused(broadcast(row.key[i]), load(state + i * kLanes), kept[chain]);
  }
  const F32x16 decay = broadcast(row.decay);
  const F32x16 delta = mul(broadcast(row.beta), sub(value, mul(decay, sum_of(kept))));
  if (row.step != nullptr) store(row.step + key_dim + column, delta);
  const auto update = [&](size_t at, size_t chain) {
    const F32x16 now = stepped(decay, state + at * kLanes, row.key[at], delta);
    store(state + at * kLanes, now);
    out[chain] = fused(broadcast(row.query[at]), now, out[chain]);
  };
  for (i = 0; i + kChains <= key_dim; i += kChains) {
    for (size_t chain = 0; chain < kChains; ++chain) update(i + chain, chain);
  }
  for (size_t chain = 0; i < key_dim; ++i, ++chain) update(i, chain);
  return sum_of(out);
}

/// Up to kDeltaRows rows: their queries, keys and gates first, then one block of columns after the
/// other, whose state stays close meanwhile.
void advance_rows(const DeltaArgs& args, size_t first, size_t count) {
  Row rows[kDeltaRows];
  float* numbers = args.scratch;
  for (size_t i = 0; i < count; ++i, numbers += 2 * args.key_dim) {
    const size_t at = (first + i) * args.stride;
    normalize(args.query + at, args.key_dim, 1.0f / std::sqrt(static_cast<float>(args.key_dim)),
              numbers);
    normalize(args.key + at, args.key_dim, 1.0f, numbers + args.key_dim);
    rows[i].query = numbers;
    rows[i].key = numbers + args.key_dim;
    rows[i].step = args.log == nullptr
                       ? nullptr
                       : args.log + delta_log_row(args.position + first + i, args.log_stride);
    if (rows[i].step != nullptr) std::copy_n(rows[i].key, args.key_dim, rows[i].step);
  }
  const F32x16 rate = exponential(broadcast(args.a_log)), shift = broadcast(args.dt_bias);
  for (size_t i = 0; i < count; i += kLanes) {
    float a[kLanes] = {}, b[kLanes] = {};
    const size_t some = std::min(kLanes, count - i);
    for (size_t lane = 0; lane < some; ++lane) {
      a[lane] = args.a[(first + i + lane) * args.a_stride];
      b[lane] = args.b[(first + i + lane) * args.b_stride];
    }
    store(a, exponential(negative(mul(rate, softplus(add(load(a), shift))))));
    store(b, sigmoid(load(b)));
    for (size_t lane = 0; lane < some; ++lane) {
      Row& row = rows[i + lane];
      row.decay = a[lane];
      row.beta = b[lane];
      if (row.step != nullptr) {
        row.step[delta_step_size(args.key_dim, args.value_dim) - 1] = row.decay;
      }
    }
  }
  for (size_t column = 0; column < args.value_dim; column += kLanes) {
    const size_t width = std::min(kLanes, args.value_dim - column);
    float* state = args.state + column * args.key_dim;
    for (size_t i = 0; i < count; ++i) {
      const float* value = args.value + (first + i) * args.stride + column;
      const F32x16 out = advance(rows[i], width < kLanes ? load_some(value, width) : load(value),
                                 args.key_dim, column, state);
      if (args.y == nullptr) continue;
      float* y = args.y + (first + i) * args.y_stride + column;
      if (width < kLanes) {
        store_some(y, out, width);
      } else {
        store(y, out);
      }
    }
  }
}

}  // namespace

void delta_rule(const DeltaArgs& args) {
  for (size_t first = 0; first < args.rows; first += kDeltaRows) {
    advance_rows(args, first, std::min(kDeltaRows, args.rows - first));
  }
}

void replay_delta(const DeltaReplayArgs& args) {
  const size_t decay_at = delta_step_size(args.key_dim, args.value_dim) - 1;
  for (size_t column = 0; column < args.value_dim; column += kLanes) {
    float* state = args.state + column * args.key_dim;
    for (size_t row = 0; row < args.rows; ++row) {
      const float* step = args.log + delta_log_row(args.position + row, args.log_stride);
      const F32x16 decay = broadcast(step[decay_at]), delta = load(step + args.key_dim + column);
      for (size_t i = 0; i < args.key_dim; ++i, state += kLanes) {
        store(state, stepped(decay, state, step[i], delta));
      }
      state -= args.key_dim * kLanes;
    }
  }
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
