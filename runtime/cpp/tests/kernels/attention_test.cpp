// Cache writes and attention: every variant's bits, and the definition in double.

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "kernels/select/cpu_features.h"
#include "kernels/select/variants.h"
#include "tests/cases.h"
#include "tests/kernels/cached.h"
#include "tests/kernels/problem.h"

namespace {

using namespace thimble::kernels;
using namespace thimble::test;

constexpr double kEpsilon = 0x1p-24;
constexpr CacheType kTypes[] = {CacheType::kFloat16, CacheType::kFloat32, CacheType::kInt8,
                                CacheType::kInt4, CacheType::kInt8Int4};

struct Shape {
  size_t tokens, heads, head_dim, start_pos;
  size_t window = 0;
  size_t ring = 0;
  float cap = 0;
  bool sinks = false;
  size_t block = 0;  ///< tokens that attend to each other, one block behind the other
};

/// Whether attention runs as one call, or split by split.
enum class Parts { kOne, kSplits };

/// A call of attention on random numbers; what the cache does not hold yet is NaN.
class Problem {
 public:
  Problem(const Shape& shape, CacheType type, float size)
      : shape_(shape),
        type_(type),
        positions_(shape.start_pos + shape.tokens),
        q_(shape.tokens * shape.heads * shape.head_dim),
        key_(positions_ * shape.head_dim),
        value_(positions_ * shape.head_dim),
        sinks_(shape.sinks ? shape.heads : 0) {
    for (size_t t = 0; shape.block > 0 && t < shape.tokens; ++t) {
      const size_t end = std::min(shape.tokens, (t / shape.block + 1) * shape.block);
      ends_.push_back(static_cast<uint32_t>(shape.start_pos + end));
    }
    Numbers numbers(static_cast<uint32_t>(positions_ * 7 + shape.head_dim));
    for (float& x : q_) x = size * numbers.real();
    for (float& x : key_) x = size * numbers.real();
    for (float& x : value_) x = numbers.real();
    for (float& x : sinks_) x = 2 * size * numbers.real();
  }

  std::vector<float> run(const Variant& variant, Parts parts = Parts::kOne) const {
    const size_t dim = shape_.head_dim;
    const size_t rows = shape_.ring > 0 ? shape_.ring : positions_;
    AlignedBuffer keys(key_cache_bytes(type_, rows, dim));
    AlignedBuffer values(value_cache_bytes(type_, rows, dim));
    AlignedBuffer scratch(attention_scratch_size(dim) * sizeof(float));
    std::memset(keys.data(), 0xFF, keys.size());  // NaN in either type
    std::memset(values.data(), 0xFF, values.size());
    std::memset(scratch.data(), 0xFF, scratch.size());
    // A ring is written around; else what may not be read stays NaN.
    for (size_t p = shape_.ring > 0 ? 0 : first_read(); p < positions_; ++p)
      variant.write_cache(
          {&key_[p * dim], &value_[p * dim], dim, p % rows, type_, keys.data(), values.data()});
    std::vector<float> out(q_.size());
    const size_t stride = shape_.heads * dim;
    const AttentionArgs args{q_.data(),
                             stride,
                             shape_.tokens,
                             shape_.heads,
                             dim,
                             shape_.start_pos,
                             scale(),
                             type_,
                             keys.data(),
                             values.data(),
                             out.data(),
                             stride,
                             reinterpret_cast<float*>(scratch.data()),
                             shape_.window,
                             shape_.ring,
                             shape_.cap,
                             sinks_.empty() ? nullptr : sinks_.data(),
                             ends_.empty() ? nullptr : ends_.data()};
    if (parts == Parts::kOne) {
      variant.attention(args);
      return out;
    }
    const size_t first = attention_first_split(shape_.start_pos, shape_.window);
    const size_t splits = attention_splits(shape_.start_pos, shape_.tokens) - first;
    const size_t size = attention_partial_size(shape_.tokens, shape_.heads, dim);
    AlignedBuffer partials(splits * size * sizeof(float));
    float* partial = reinterpret_cast<float*>(partials.data());
    for (size_t split = splits; split-- > 0;)
      variant.attention_split(args, first + split, partial + split * size);
    variant.attention_merge(args, partial);
    return out;
  }

  /// Whether `out` is softmax(scale * q . k) . v within what float32 may lose.
  bool is_right(const std::vector<float>& out) const {
    const size_t dim = shape_.head_dim;
    std::vector<std::vector<float>> keys, values;
    const bool rounds = has_cache_scales(type_);  // queries to int8, and weights
    for (size_t p = 0; p < positions_; ++p) {
      keys.push_back(stored(&key_[p * dim], dim, key_type(type_)));
      values.push_back(stored(&value_[p * dim], dim, value_type(type_)));
    }
    for (size_t row = 0; row < shape_.tokens * shape_.heads; ++row) {
      const size_t token = row / shape_.heads, behind = shape_.start_pos + token + 1;
      const size_t first =
          shape_.window == 0 || behind < shape_.window ? 0 : behind - shape_.window;
      const size_t visible = (ends_.empty() ? behind : ends_[token]) - first;
      const std::vector<float> query =
          stored(&q_[row * dim], dim, rounds ? CacheType::kInt8 : CacheType::kFloat32);
      std::vector<double> weights(visible);
      double largest = -1e300, sum = 0, most = 0;
      for (size_t p = 0; p < visible; ++p) {
        double dot = 0, size = 0;
        for (size_t d = 0; d < dim; ++d) {
          const double term = static_cast<double>(query[d]) * keys[first + p][d];
          dot += term;
          size += std::fabs(term);
        }
        weights[p] = dot * scale();
        if (shape_.cap > 0) weights[p] = shape_.cap * std::tanh(weights[p] / shape_.cap);
        most = std::fmax(most, size * scale());
        largest = std::fmax(largest, weights[p]);
      }
      const double sink = sinks_.empty() ? largest : sinks_[row % shape_.heads];
      largest = std::fmax(largest, sink);
      if (!sinks_.empty()) sum = std::exp(sink - largest);
      for (double& weight : weights) sum += weight = std::exp(weight - largest);
      // A score is off by (dim + 7) roundings of its terms' size (the chain; log2(e), the scale
      // times it, times the query; the product with an integer key's scale; the maximum taken off;
      // an integer key here), hence a weight by as much of itself, twice (it is divided by their
      // sum), and by 2^x's own error, below 2^-125 for the smallest; then the sums. A cap, which
      // lets no error grow, adds 14 roundings of what it leaves (the cap times log2(e), used twice;
      // the quotient; 5 of exp(x) - 1, twice in tanh; the product), a sink one of itself.
      const double capped = shape_.cap > 0 ? std::fmin(most, shape_.cap) : 0;
      const double sunk = sinks_.empty() ? 0 : std::fabs(sink);
      const double tolerance = kEpsilon * (2 * ((dim + 7) * most + 14 * capped + sunk) +
                                           2 * visible + 2.0 * visible / 64 * 5 + 16);
      const double rounded = rounds ? rounding_of(first, weights) / sum : 0;
      for (size_t d = 0; d < dim; ++d) {
        double expected = 0, size = 0;
        for (size_t p = 0; p < visible; ++p) {
          const double term = weights[p] / sum * values[first + p][d];
          expected += term;
          size += std::fabs(term);
        }
        const double error = tolerance * size + rounded + visible * 0x1p-125;
        if (!(std::fabs(out[row * dim + d] - expected) <= error)) return false;
      }
    }
    return true;
  }

  /// The answers for some of the tokens, from a call with them alone.
  std::vector<float> run_part(const Variant& variant, size_t first, size_t count) const {
    const size_t row = shape_.heads * shape_.head_dim;
    Problem part = *this;
    part.shape_.tokens = count;
    part.shape_.start_pos += first;
    part.positions_ = part.shape_.start_pos + count;
    part.q_.assign(q_.begin() + static_cast<std::ptrdiff_t>(first * row),
                   q_.begin() + static_cast<std::ptrdiff_t>((first + count) * row));
    return part.run(variant);
  }

 private:
  /// The first position of the cache that a kernel may read: that of the 16 with the first that the
  /// first token sees.
  size_t first_read() const {
    return shape_.window == 0 || shape_.start_pos < shape_.window
               ? 0
               : (shape_.start_pos + 1 - shape_.window) / kCacheLanes * kCacheLanes;
  }

  float scale() const { return 1.0f / std::sqrt(static_cast<float>(shape_.head_dim)); }

  /// The largest magnitude of a position's value.
  double largest_value(size_t position) const {
    const float* value = &value_[position * shape_.head_dim];
    const auto smaller = [](float a, float b) { return std::fabs(a) < std::fabs(b); };
    return std::fabs(*std::max_element(value, value + shape_.head_dim, smaller));
  }

  /// How far rounded weights may move an output: each, times its value, by half of 1/16383 of the
  /// largest weight times value of its tile, and a little for that step itself, if it is normal.
  double rounding_of(size_t first, const std::vector<double>& weights) const {
    std::vector<double> largest(positions_ / kAttentionTile + 1, 0x1p+36 * FLT_MIN);
    for (size_t p = 0; p < weights.size(); ++p) {
      double& of_tile = largest[(first + p) / kAttentionTile];
      of_tile = std::fmax(of_tile, weights[p] * largest_value(first + p));
    }
    double error = 0;
    for (size_t p = 0; p < weights.size(); ++p)
      error += 0.51 / 16383 * largest[(first + p) / kAttentionTile];
    return error;
  }

  Shape shape_;
  CacheType type_;
  size_t positions_;
  std::vector<float> q_, key_, value_, sinks_;
  std::vector<uint32_t> ends_;
};

/// The variants that this processor runs; those that borrow attention from another, once.
std::vector<const Variant*> variants_here() {
  std::vector<const Variant*> here;
  for (const Variant* variant : all_variants()) {
    const bool borrows = !here.empty() && here.back()->attention == variant->attention;
    if ((variant->required & ~cpu_features()) == 0 && !borrows) here.push_back(variant);
  }
  return here;
}

void show(const Shape& shape, CacheType type) {
  std::fprintf(stderr,
               "%zu tokens, %zu heads of %zu from %zu, window %zu, ring %zu, cap %g, sinks %d, "
               "block %zu, cache type %d\n",
               shape.tokens, shape.heads, shape.head_dim, shape.start_pos, shape.window, shape.ring,
               static_cast<double>(shape.cap), shape.sinks, shape.block, static_cast<int>(type));
}

bool check(const Shape& shape, float size) {
  if (!is_chosen()) return true;
  for (CacheType type : kTypes) {
    const Problem problem(shape, type, size);
    const std::vector<float> expected = problem.run(scalar::kVariant);
    const char* failure = problem.is_right(expected) ? nullptr : "the definition of attention";
    for (const Variant* variant : variants_here()) {
      for (Parts parts : {Parts::kOne, Parts::kSplits}) {
        if (shape.block > 0 && parts == Parts::kSplits) continue;
        const std::vector<float> out = problem.run(*variant, parts);
        if (equal_bits(out, expected)) continue;
        std::fprintf(stderr, "%s%s\n", variant->name, parts == Parts::kOne ? "" : ", in splits");
        failure = "the same bits as scalar";
      }
    }
    if (failure == nullptr) continue;
    show(shape, type);
    return expect(false, failure);
  }
  return true;
}

bool decode() {
  for (size_t heads : {1, 2, 3, 4, 6, 9})
    for (size_t start_pos : {0, 1, 15, 16, 63, 64, 200})
      if (!check({1, heads, 64, start_pos}, 1.0f)) return false;
  return true;
}

/// More positions than one split has, at its ends and across them.
bool splits() {
  for (const Shape& shape :
       {Shape{1, 4, 64, 511}, Shape{1, 4, 64, 512}, Shape{1, 1, 32, 1500}, Shape{40, 3, 32, 490}})
    if (!check(shape, 1.0f)) return false;
  return true;
}

bool prefill() {
  for (size_t tokens : {2, 7, 33, 90})
    for (size_t heads : {1, 3, 4})
      for (size_t start_pos : {0, 5, 64})
        if (!check({tokens, heads, 32, start_pos}, 1.0f)) return false;
  return true;
}

bool head_dims() {
  for (size_t head_dim : {4, 8, 16, 20, 80, 128, 256})
    if (!check({3, 2, head_dim, 70}, 1.0f)) return false;
  return true;
}

/// Windows at the ends of blocks, tiles and splits, and one that hides nothing. What lies before
/// the blocks that are seen is NaN.
bool windows() {
  for (size_t window : {1, 15, 16, 17, 64, 100, 512, 5000})
    for (const Shape& shape : {Shape{1, 4, 32, 0}, Shape{1, 1, 32, 700}, Shape{1, 6, 20, 1100},
                               Shape{7, 3, 16, 60}, Shape{90, 3, 16, 490}})
      if (!check({shape.tokens, shape.heads, shape.head_dim, shape.start_pos, window}, 1.0f))
        return false;
  return true;
}

/// A token's answer is the same alone as with others, which see other positions.
bool windows_alone() {
  constexpr size_t kTokens = 70, kHeads = 3, kDim = 16;
  for (size_t window : {0, 1, 16, 40, 100})
    for (CacheType type : kTypes)
      for (const Variant* variant : variants_here()) {
        const Problem problem({kTokens, kHeads, kDim, 480, window}, type, 1.0f);
        const std::vector<float> all = problem.run(*variant);
        for (size_t first = 0, count = 1; first < kTokens; first += count, count += 3) {
          const size_t tokens = first + count < kTokens ? count : kTokens - first;
          const std::vector<float> part = problem.run_part(*variant, first, tokens);
          if (std::memcmp(part.data(), &all[first * kHeads * kDim], part.size() * sizeof(float)) !=
              0)
            return expect(false, "the bits of a call with other tokens");
        }
      }
  return true;
}

/// Tokens that attend to those behind them: windows, a split's end, and blocks that end in a tile.
bool blocks() {
  for (size_t window : {0, 7, 64, 100})
    for (size_t block : {3, 16, 50, 300})
      for (Shape shape : {Shape{20, 1, 16, 0}, Shape{33, 4, 32, 500}, Shape{90, 3, 16, 60}}) {
        shape.window = window;
        shape.block = block;
        if (!check(shape, 1.0f)) return false;
      }
  return true;
}

/// A ring that just holds what the call reads, and one with room, give the bits of a whole cache:
/// before it was written around, and after.
bool rings() {
  for (size_t window : {1, 17, 64, 500})
    for (const Shape& shape : {Shape{1, 4, 32, 0}, Shape{1, 1, 32, 1700}, Shape{1, 6, 20, 1103},
                               Shape{7, 3, 16, 60}, Shape{90, 3, 16, 990}})
      for (size_t room : {0, 192})
        for (CacheType type : kTypes) {
          if (!is_chosen()) continue;
          Shape whole = shape;
          whole.window = window;
          Shape ring = whole;
          ring.ring = round_up(window - 1 + kCacheLanes - 1 + shape.tokens, kAttentionTile) + room;
          for (const Variant* variant : variants_here()) {
            const std::vector<float> expected = Problem(whole, type, 1.0f).run(*variant);
            for (Parts parts : {Parts::kOne, Parts::kSplits}) {
              const std::vector<float> out = Problem(ring, type, 1.0f).run(*variant, parts);
              if (equal_bits(out, expected)) continue;
              show(ring, type);
              return expect(false, "the bits of a whole cache");
            }
          }
        }
  return true;
}

/// Caps far above the scores, among them and far below; sinks with and without one. Scores grow
/// with the square of `size`.
bool caps_and_sinks() {
  for (float size : {1.0f, 6.0f})
    for (float cap : {0.0f, 0.5f, 5.0f, 50.0f})
      for (bool sinks : {false, true})
        for (Shape shape : {Shape{1, 3, 32, 0}, Shape{1, 4, 64, 700}, Shape{40, 3, 20, 490}}) {
          shape.cap = cap;
          shape.sinks = sinks;
          if (!check(shape, size)) return false;
          shape.window = 30;
          if (!check(shape, size)) return false;
        }
  return true;
}

/// Scores so far apart that one position takes all.
bool sharp() { return check({5, 4, 64, 100}, 40.0f); }

/// NaNs and infinities in queries and keys end, in whatever they end.
bool nan_ends() {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (float odd : {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity})
    for (CacheType type : kTypes)
      for (const Variant* variant : variants_here()) {
        const Problem problem({4, 2, 32, 20}, type, odd);
        for (Parts parts : {Parts::kOne, Parts::kSplits})
          if (problem.run(*variant, parts).size() != 4 * 2 * 32) return expect(false, "an answer");
      }
  return true;
}

/// A vector of one position's key and value that is zero, or too small for an int8 scale.
bool tiny_numbers() { return check({3, 2, 20, 17}, 0.0f) && check({3, 2, 20, 17}, 1e-39f); }

constexpr Case kCases[] = {
    {"decode", decode},       {"splits", splits},     {"prefill", prefill},
    {"head_dims", head_dims}, {"windows", windows},   {"windows_alone", windows_alone},
    {"blocks", blocks},       {"rings", rings},       {"caps_and_sinks", caps_and_sinks},
    {"sharp", sharp},         {"nan_ends", nan_ends}, {"tiny_numbers", tiny_numbers}};

}  // namespace

int main(int argc, char** argv) { return run_cases(kCases, argc, argv); }
