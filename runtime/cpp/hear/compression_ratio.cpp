#include "hear/compression_ratio.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

namespace thimble {
namespace {

// Deflate's numbers (RFC 1951), and those of zlib's level 6.
constexpr size_t kLeastMatch = 3, kMostMatch = 258, kFarthest = 32768 - 262, kFarForShort = 4096;
constexpr size_t kLazy = 16, kNice = 128, kGood = 8, kChain = 128;
constexpr size_t kEndOfBlock = 256, kLiterals = 286, kDistances = 30, kLengthCodes = 19;
constexpr size_t kHeader = 6;  // bytes of zlib's own
constexpr uint8_t kLengthOrder[kLengthCodes] = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                                11, 4,  12, 3, 13, 2, 14, 1, 15};

/// A symbol of lengths or distances, and the bits behind it.
struct Code {
  size_t symbol, extra;
};

Code length_code(size_t length) {
  if (length == kMostMatch) return {285, 0};
  size_t base = length - kLeastMatch, extra = 0;
  while (base >> (extra + 3) != 0) ++extra;
  return {257 + 4 * extra + (base >> extra), extra};
}

Code distance_code(size_t distance) {
  const size_t base = distance - 1;
  size_t extra = 0;
  while (base >> (extra + 2) != 0) ++extra;
  return {2 * extra + (base >> extra), extra};
}

using Counts = std::vector<size_t>;

/// The lengths of the codes of Huffman's tree; two symbols have one at least, as zlib wants it.
std::vector<size_t> code_lengths(Counts counts) {
  for (size_t i = 0; i < counts.size() && std::count(counts.begin(), counts.end(), 0u) >
                                              static_cast<std::ptrdiff_t>(counts.size() - 2);
       ++i) {
    if (counts[i] == 0) counts[i] = 1;
  }
  struct Node {
    size_t count, depth, place;
  };
  std::vector<std::pair<size_t, size_t>> children;  // of the places behind those of symbols
  const auto is_later = [](const Node& a, const Node& b) {
    return std::tie(a.count, a.depth, a.place) > std::tie(b.count, b.depth, b.place);
  };
  std::priority_queue<Node, std::vector<Node>, decltype(is_later)> open(is_later);
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0) open.push({counts[i], 0, i});
  }
  while (open.size() > 1) {
    const Node a = open.top();
    open.pop();
    const Node b = open.top();
    open.pop();
    open.push({a.count + b.count, std::max(a.depth, b.depth) + 1, counts.size() + children.size()});
    children.push_back({a.place, b.place});
  }
  std::vector<size_t> lengths(counts.size() + children.size(), 0);
  for (size_t i = children.size(); i-- > 0;) {
    const size_t length = lengths[counts.size() + i] + 1;
    lengths[children[i].first] = lengths[children[i].second] = length;
  }
  lengths.resize(counts.size());
  return lengths;
}

size_t bits_of(const Counts& counts, const std::vector<size_t>& lengths) {
  size_t bits = 0;
  for (size_t i = 0; i < counts.size(); ++i) bits += counts[i] * lengths[i];
  return bits;
}

size_t used(const std::vector<size_t>& lengths, size_t least) {
  size_t size = lengths.size();
  while (size > least && lengths[size - 1] == 0) --size;
  return size;
}

/// Counts how lengths are written: runs have symbols of their own. Returns the bits behind them.
size_t count_lengths(const std::vector<size_t>& lengths, size_t size, Counts* counts) {
  size_t extra = 0;
  for (size_t begin = 0, end = 0; begin < size; begin = end) {
    while (end < size && lengths[end] == lengths[begin]) ++end;
    size_t left = end - begin;
    if (lengths[begin] != 0) {
      ++(*counts)[lengths[begin]];
      --left;
    }
    while (left >= 3) {
      const bool is_zero = lengths[begin] == 0;
      const size_t run = std::min<size_t>(left, is_zero ? 138 : 6);
      ++(*counts)[!is_zero ? 16 : run > 10 ? 18 : 17];
      extra += !is_zero ? 2 : run > 10 ? 7 : 3;
      left -= run;
    }
    (*counts)[lengths[begin]] += left;
  }
  return extra;
}

/// A block's symbols.
class Block {
 public:
  void add_literal(unsigned char byte) { ++literals_[byte]; }
  void add_match(size_t length, size_t distance) {
    const Code first = length_code(length), second = distance_code(distance);
    ++literals_[first.symbol];
    ++distances_[second.symbol];
    extra_ += first.extra + second.extra;
  }

  /// The bits of the smaller of its two forms.
  size_t bits() const { return 3 + extra_ + std::min(fixed_bits(), dynamic_bits()); }

 private:
  size_t fixed_bits() const {
    size_t bits = 0;
    for (size_t i = 0; i < kLiterals; ++i) {
      bits += literals_[i] * (i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8);
    }
    for (const size_t count : distances_) bits += 5 * count;
    return bits;
  }
  size_t dynamic_bits() const {
    const std::vector<size_t> literals = code_lengths(literals_),
                              distances = code_lengths(distances_);
    Counts counts(kLengthCodes, 0);
    size_t bits = 14 + count_lengths(literals, used(literals, 257), &counts);
    bits += count_lengths(distances, used(distances, 1), &counts);
    const std::vector<size_t> lengths = code_lengths(counts);
    size_t told = kLengthCodes;
    while (told > 4 && lengths[kLengthOrder[told - 1]] == 0) --told;
    return bits + 3 * told + bits_of(counts, lengths) + bits_of(literals_, literals) +
           bits_of(distances_, distances);
  }

  static Counts with_end() {
    Counts counts(kLiterals, 0);
    counts[kEndOfBlock] = 1;
    return counts;
  }

  Counts literals_ = with_end(), distances_ = Counts(kDistances, 0);
  size_t extra_ = 0;
};

struct Match {
  size_t length, distance;
};

/// The longest text before `at` that is the same as that at it, if it is longer than `than`.
Match longest(std::string_view text, size_t at, size_t than) {
  Match best{than, 0};
  const size_t most = std::min(kMostMatch, text.size() - at);
  size_t tries = than >= kGood ? kChain / 4 : kChain;
  for (size_t from = at; from-- > 0 && at - from <= kFarthest;) {
    if (text.compare(from, kLeastMatch, text, at, kLeastMatch) != 0) continue;
    size_t length = kLeastMatch;
    while (length < most && text[from + length] == text[at + length]) ++length;
    if (length > best.length) best = {length, at - from};
    if (best.length >= std::min(kNice, most) || --tries == 0) break;
  }
  return best;
}

}  // namespace

double compression_ratio(std::string_view text) {
  Block block;
  Match last{kLeastMatch - 1, 0};
  bool pending = false;  // a byte that waits for a longer match behind it
  size_t at = 0;
  while (at < text.size()) {
    Match match{kLeastMatch - 1, 0};
    if (text.size() - at >= kLeastMatch && last.length < kLazy) {
      match = longest(text, at, last.length);
      const bool is_poor = match.length == kLeastMatch && match.distance > kFarForShort;
      if (match.distance == 0 || is_poor) match = {kLeastMatch - 1, 0};
    }
    if (last.length >= kLeastMatch && match.length <= last.length) {
      block.add_match(last.length, last.distance);
      at += last.length - 1;
      pending = false;
      last = {kLeastMatch - 1, 0};
      continue;
    }
    if (pending) block.add_literal(static_cast<unsigned char>(text[at - 1]));
    pending = true;
    last = match;
    ++at;
  }
  if (pending) block.add_literal(static_cast<unsigned char>(text.back()));
  const size_t bits = text.empty() ? 10 : block.bits();
  return static_cast<double>(text.size()) / static_cast<double>(kHeader + (bits + 7) / 8);
}

}  // namespace thimble
