#include "constraint/code_points.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tokenizer/utf8.h"

namespace thimble {
namespace {

constexpr uint32_t kEnd = 0x110000;

struct ByteRange {
  uint8_t first, last;
  bool operator==(ByteRange other) const { return first == other.first && last == other.last; }
};
using Sequence = std::vector<ByteRange>;

/// Characters whose UTF-8 has `first.size()` bytes and lies between two of that length: as few
/// sequences of byte ranges as that takes, ascending.
void add_sequences(const std::string& first, const std::string& last, size_t at, Sequence head,
                   std::vector<Sequence>* sequences) {
  const auto low = static_cast<uint8_t>(first[at]), high = static_cast<uint8_t>(last[at]);
  const auto with = [&](uint8_t from, uint8_t to) {
    Sequence ranges = head;
    ranges.push_back({from, to});
    return ranges;
  };
  const bool is_last = at + 1 == first.size();
  const auto rest_is = [at](const std::string& text, char byte) {
    return text.find_first_not_of(byte, at + 1) == text.npos;
  };
  const bool from_least = is_last || rest_is(first, '\x80');
  const bool to_most = is_last || rest_is(last, '\xBF');
  if (low == high && !(from_least && to_most)) {
    add_sequences(first, last, at + 1, with(low, low), sequences);
    return;
  }
  const std::string most(first.size(), '\xBF'), least(first.size(), '\x80');
  if (!from_least) add_sequences(first, most, at + 1, with(low, low), sequences);
  const auto from = static_cast<uint8_t>(low + (from_least ? 0 : 1));
  const auto to = static_cast<uint8_t>(high - (to_most ? 0 : 1));
  if (from <= to) {
    sequences->push_back(with(from, to));
    sequences->back().resize(first.size(), {0x80, 0xBF});
  }
  if (!to_most) add_sequences(least, last, at + 1, with(high, high), sequences);
}

/// What follows `depth` bytes that these sequences have in common, as a tree.
Grammar::Node tree(Grammar* grammar, const Sequence* begin, const Sequence* end, size_t depth) {
  ByteSet last;
  std::vector<Grammar::Node> choices;
  while (begin != end) {
    const ByteRange range = (*begin)[depth];
    if (begin->size() == depth + 1) {
      last |= byte_range(range.first, range.last);
      ++begin;
      continue;
    }
    const Sequence* other = std::find_if(
        begin, end, [=](const Sequence& sequence) { return !(sequence[depth] == range); });
    choices.push_back(grammar->sequence({grammar->byte(byte_range(range.first, range.last)),
                                         tree(grammar, begin, other, depth + 1)}));
    begin = other;
  }
  choices.insert(choices.begin(), grammar->byte(last));
  return grammar->choice(std::move(choices));
}

}  // namespace

void CodePoints::add(const std::vector<Range>& ranges) {
  std::vector<Range> all = ranges_;
  for (const auto& [first, last] : ranges) {
    if (first < kSurrogates) all.push_back({first, std::min(last, kSurrogates - 1)});
    if (last >= kAfterSurrogates) all.push_back({std::max(first, kAfterSurrogates), last});
  }
  std::sort(all.begin(), all.end(), [](Range a, Range b) { return a.first < b.first; });
  ranges_.clear();
  for (const Range& range : all) {
    if (ranges_.empty() || ranges_.back().last + 1 < range.first) {
      ranges_.push_back(range);
    } else {
      ranges_.back().last = std::max(ranges_.back().last, range.last);
    }
  }
}

CodePoints CodePoints::complement() const {
  std::vector<Range> gaps;
  uint32_t next = 0;
  for (const Range& range : ranges_) {
    if (next < range.first) gaps.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next < kEnd) gaps.push_back({next, kEnd - 1});
  CodePoints result;
  result.add(gaps);
  return result;
}

CodePoints CodePoints::intersection(const CodePoints& other) const {
  CodePoints outside = complement();
  outside.add(other.complement());
  return outside.complement();
}

bool CodePoints::contains(uint32_t point) const {
  return std::any_of(ranges_.begin(), ranges_.end(), [point](const Range& range) {
    return range.first <= point && point <= range.last;
  });
}

Grammar::Node utf8_node(Grammar* grammar, const CodePoints& points) {
  std::vector<Sequence> sequences;
  constexpr uint32_t kBounds[] = {0, 0x80, 0x800, 0x10000, kEnd};
  for (const CodePoints::Range& range : points.ranges()) {
    for (size_t length = 1; length <= 4; ++length) {
      const uint32_t first = std::max(range.first, kBounds[length - 1]);
      const uint32_t last = std::min(range.last, kBounds[length] - 1);
      if (first > last) continue;
      std::string low, high;
      append_utf8(first, &low);
      append_utf8(last, &high);
      add_sequences(low, high, 0, {}, &sequences);
    }
  }
  return tree(grammar, sequences.data(), sequences.data() + sequences.size(), 0);
}

}  // namespace thimble
