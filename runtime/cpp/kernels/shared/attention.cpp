#include <cstring>
#include <type_traits>

#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/attention_bytes.h"
#include "kernels/shared/attention_floats.h"
#include "kernels/shared/attention_rows.h"
#include "kernels/shared/functions.h"

namespace thimble::kernels::THIMBLE_VARIANT {
namespace {

static_assert(kAttentionRows <= kLanes && kMostAttentionRows % kAttentionRows == 0);
constexpr size_t kMostGroups = kMostAttentionRows / kAttentionRows;

/// The parts of a call's scratch memory.
struct Scratch {
  float *queries, *states, *merged, *weights, *keys, *values;

  explicit Scratch(const AttentionArgs& args) {
    const size_t padded_dim = round_up(args.head_dim, kLanes);
    queries = args.scratch;
    states = queries + kMostAttentionRows * padded_dim;
    merged = states + kMostAttentionRows * attention_state_size(args.head_dim);
    weights = merged + kMostAttentionRows * attention_state_size(args.head_dim);
    keys = weights + kLanes * kAttentionTile;
    values = keys + kAttentionTile * padded_dim;
  }
};

template <size_t kRows, CacheType kType>
using Group =
    RowGroup<kRows, std::conditional_t<has_cache_scales(kType),
                                       ByteProducts<kRows, key_type(kType), value_type(kType)>,
                                       FloatProducts<kRows>>>;

/// `count` blocks as floats.
template <typename Number>
Blocks<float, false> widened(const Blocks<Number, kPrefetches>& from, size_t count, size_t columns,
                             float* to) {
  if constexpr (std::is_same_v<Number, float>) {
    return {from.first, from.stride, from.scales, from.scale_stride};
  }
  for (size_t b = 0; b < count; ++b)
    for (size_t i = 0; i < columns * kLanes; i += kLanes) {
      prefetch<kLanes>(from.block(b + kAttentionTile / kLanes) + i);
      store(to + b * columns * kLanes + i, load_cached(from.block(b) + i));
    }
  return {to, columns * kLanes, from.scales, from.scale_stride};
}

/// With more rows than this, a tile is first converted to float32, once for all groups of rows.
constexpr size_t kFewRows = 4;
/// With more groups than this too: converting is dear where halves take several instructions.
#if defined(__wasm_simd128__)
constexpr size_t kFewGroups = 1;
#else
constexpr size_t kFewGroups = kMostGroups;
#endif

/// Runs up to kMostAttentionRows rows, in groups of kRows, through the positions of one split. They
/// attend to those from `first` to before `end`.
template <size_t kRows, CacheType kType>
void run_split(const AttentionArgs& args, Group<kRows, kType>* groups, size_t count, size_t split,
               size_t first, size_t end) {
  const Scratch scratch(args);
  const size_t padded_dim = round_up(args.head_dim, kLanes);
  const size_t columns = cache_value_columns(value_type(kType), args.head_dim);
  const size_t split_end = (split + 1) * kAttentionSplit;
  end = end < split_end ? end : split_end;
  const size_t split_start = split * kAttentionSplit;
  const size_t unseen = first < split_start ? 0 : (first - split_start) / kAttentionTile;
  for (size_t g = 0; g < count; ++g) groups[g].start_split();
  size_t start = split_start + unseen * kAttentionTile;
  size_t row = args.ring == 0 ? start : start % args.ring;
  for (; start < end; start += kAttentionTile) {
    const auto keys = blocks_at<key_type(kType)>(args.keys, row, args.head_dim);
    const auto values = blocks_at<value_type(kType)>(args.values, row, columns);
    row += kAttentionTile;
    if (row == args.ring) row = 0;
    const bool few_groups = kFewGroups == kMostGroups || count <= kFewGroups;
    if constexpr (has_cache_scales(kType)) {
      for (size_t g = 0; g < count; ++g) groups[g].add_tile(start, keys, values);
    } else if (kRows <= kFewRows && few_groups) {
      for (size_t g = 0; g < count; ++g) groups[g].add_tile(start, keys, values);
    } else {
      const size_t positions = end - start < kAttentionTile ? end - start : kAttentionTile;
      const size_t blocks = divide_up(positions, kLanes);
      const auto wide_keys = widened(keys, blocks, args.head_dim, scratch.keys);
      const auto wide_values = widened(values, blocks, padded_dim, scratch.values);
      for (size_t g = 0; g < count; ++g) groups[g].add_tile(start, wide_keys, wide_values);
    }
  }
  for (size_t g = 0; g < count; ++g) groups[g].end_split();
}

/// What is done with a row, counted from the first of a call, at the end of a split. It has a type
/// of its own, so that all below is compiled once, and not for each of its uses.
struct EndSplit {
  void (*run)(const void* context, size_t row, const RowState& state);
  const void* context;

  template <typename Run>
  explicit EndSplit(const Run& end)
      : run([](const void* self, size_t row, const RowState& state) {
          (*static_cast<const Run*>(self))(row, state);
        }),
        context(&end) {}
};

/// Runs rows through splits, with `end_split` for all at the end of each.
template <size_t kRows, CacheType kType>
void run_rows(const AttentionArgs& args, size_t first, size_t count, size_t first_split,
              size_t last_split, EndSplit end_split) {
  const Scratch scratch(args);
  Group<kRows, kType> groups[kMostGroups];
  const size_t group_count = divide_up(count, kRows), state = attention_state_size(args.head_dim);
  for (size_t g = 0; g < group_count; ++g) {
    const size_t row = g * kRows, left = count - row;
    groups[g].start(args, first + row, left < kRows ? left : kRows,
                    scratch.queries + row * args.head_dim, scratch.states + row * state,
                    scratch.weights);
  }
  const size_t from = attention_first(args.start_pos + first / args.heads, args.window);
  const size_t end = args.visible((first + count - 1) / args.heads);
  for (size_t split = first_split; split < last_split; ++split) {
    run_split<kRows, kType>(args, groups, group_count, split, from, end);
    for (size_t r = 0; r < count; ++r) {
      end_split.run(end_split.context, r, groups[r / kRows].state(r % kRows));
    }
  }
}

/// Calls run_rows() with the size of groups that fits `count` rows best.
void run_some_rows(const AttentionArgs& args, size_t first, size_t count, size_t first_split,
                   size_t last_split, EndSplit end_split) {
  const auto run = [&](auto rows) {
    constexpr size_t kRows = decltype(rows)::value;
    switch (args.type) {
      case CacheType::kFloat16:
        return run_rows<kRows, CacheType::kFloat16>(args, first, count, first_split, last_split,
                                                    end_split);
      case CacheType::kFloat32:
        return run_rows<kRows, CacheType::kFloat32>(args, first, count, first_split, last_split,
                                                    end_split);
      case CacheType::kInt8:
        return run_rows<kRows, CacheType::kInt8>(args, first, count, first_split, last_split,
                                                 end_split);
      case CacheType::kInt4:
        return run_rows<kRows, CacheType::kInt4>(args, first, count, first_split, last_split,
                                                 end_split);
      case CacheType::kInt8Int4:
        return run_rows<kRows, CacheType::kInt8Int4>(args, first, count, first_split, last_split,
                                                     end_split);
    }
  };
  const size_t rows = divide_up(count, divide_up(count, kAttentionRows));
  if (rows == 1) return run(std::integral_constant<size_t, 1>{});
  if (rows == 2) return run(std::integral_constant<size_t, 2>{});
  if constexpr (kAttentionRows >= 4) {
    // Three query heads to each of keys are common (Llama 3.2 3B, Phi-4 mini, SmolLM2).
    if (rows == 3 && args.type == CacheType::kInt8) {
      return run_rows<3, CacheType::kInt8>(args, first, count, first_split, last_split, end_split);
    }
    if (rows <= 4) return run(std::integral_constant<size_t, 4>{});
  }
  if constexpr (kAttentionRows > 8) {
    if (rows <= 8) return run(std::integral_constant<size_t, 8>{});
  }
  return run(std::integral_constant<size_t, kAttentionRows>{});
}

/// Calls `run(first, count)` for all rows, as many at once as there is scratch
/// for.
template <typename Run>
void each_rows(const AttentionArgs& args, Run run) {
  const size_t rows = args.tokens * args.heads;
  for (size_t first = 0; first < rows; first += kMostAttentionRows) {
    const size_t left = rows - first;
    run(first, left < kMostAttentionRows ? left : kMostAttentionRows);
  }
}

/// Writes the outputs of a row that has seen all its positions.
void finish(const AttentionArgs& args, size_t row, const RowState& state) {
  const size_t head = row % args.heads;
  float* out = args.out + row / args.heads * args.out_stride + head * args.head_dim;
  if (args.sinks != nullptr) state.add_sink(args.sinks[head] * kLog2OfE);
  const F32x16 sum = broadcast(lane_sum(load(state.sums())));
  for (size_t d = 0; d < args.head_dim; d += kLanes) {
    const F32x16 mean = div(load(state.outputs() + d), sum);
    const size_t left = args.head_dim - d;
    left < kLanes ? store_some(out + d, mean, left) : store(out + d, mean);
  }
}

}  // namespace

void attention(const AttentionArgs& args) {
  const Scratch scratch(args);
  const auto merged = [&](size_t r) {
    return RowState(scratch.merged + r * attention_state_size(args.head_dim), args.head_dim);
  };
  each_rows(args, [&](size_t first, size_t count) {
    const size_t start_pos = args.start_pos + first / args.heads;
    const size_t end = args.visible((first + count - 1) / args.heads);
    for (size_t r = 0; r < count; ++r) merged(r).clear();
    const auto merge = [&](size_t r, const RowState& state) { merged(r).merge(state); };
    run_some_rows(args, first, count, attention_first_split(start_pos, args.window),
                  divide_up(end, kAttentionSplit), EndSplit(merge));
    for (size_t r = 0; r < count; ++r) finish(args, first + r, merged(r));
  });
}

void attention_split(const AttentionArgs& args, size_t split, float* partial) {
  const size_t size = attention_state_size(args.head_dim);
  each_rows(args, [&](size_t first, size_t count) {
    const auto copy = [&](size_t r, const RowState& state) {
      std::memcpy(partial + (first + r) * size, state.outputs(), size * sizeof(float));
    };
    run_some_rows(args, first, count, split, split + 1, EndSplit(copy));
  });
}

void attention_merge(const AttentionArgs& args, float* partials) {
  const size_t size = attention_state_size(args.head_dim);
  const size_t rows = args.tokens * args.heads;
  const size_t splits = attention_splits(args.start_pos, args.tokens) -
                        attention_first_split(args.start_pos, args.window);
  for (size_t row = 0; row < rows; ++row) {
    const RowState merged(args.scratch, args.head_dim);
    merged.clear();
    for (size_t split = 0; split < splits; ++split)
      merged.merge(RowState(partials + (split * rows + row) * size, args.head_dim));
    finish(args, row, merged);
  }
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
