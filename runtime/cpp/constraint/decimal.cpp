#include "constraint/decimal.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace thimble {
namespace {

constexpr int64_t kMaxDigits = 400;

ByteSet digits(int first, int last) {
  return first > last
             ? ByteSet()
             : byte_range(static_cast<uint8_t>('0' + first), static_cast<uint8_t>('0' + last));
}

int compare_magnitudes(const Decimal& a, const Decimal& b) {
  if (a.integer.size() != b.integer.size()) return a.integer.size() < b.integer.size() ? -1 : 1;
  const int order = a.integer.compare(b.integer);
  return order != 0 ? order : a.fraction.compare(b.fraction);
}

/// The numbers without a sign in a range whose ends are not negative.
class Magnitudes {
 public:
  Magnitudes(Grammar* grammar, const Bound& min, const std::optional<Bound>& max, bool integer)
      : grammar_(grammar), min_(min), max_(max), integer_(integer) {}

  Grammar::Node build() {
    const size_t least = min_.value.integer.size();
    const size_t most = max_ ? max_->value.integer.size() : least;
    std::vector<Grammar::Node> choices;
    for (length_ = least; length_ <= most; ++length_) {
      choices.push_back(integer_part(0, length_ == least, max_ && length_ == most));
    }
    if (!max_) {
      choices.push_back(grammar_->sequence(
          {grammar_->byte(digits(1, 9)), grammar_->repeat(any_digit(), least, Grammar::kUnlimited),
           fraction(false, false)}));
    }
    return grammar_->choice(std::move(choices));
  }

 private:
  Grammar::Node any_digit() { return grammar_->byte(digits(0, 9)); }

  /// Digits of the integer part from `at` on, and what follows. `low`, `high`: those before are
  /// equal to the bound's.
  Grammar::Node integer_part(size_t at, bool low, bool high) {
    if (at == length_) return fraction(low, high);
    const int first = low ? min_.value.integer[at] - '0' : at == 0 && length_ > 1 ? 1 : 0;
    const int last = high ? max_->value.integer[at] - '0' : 9;
    if (!low && !high) {
      std::vector<Grammar::Node> nodes;
      if (at == 0) nodes.push_back(grammar_->byte(digits(first, 9)));
      const size_t left = length_ - at - (at == 0 ? 1 : 0);
      nodes.push_back(grammar_->repeat(any_digit(), left, left));
      nodes.push_back(fraction(false, false));
      return grammar_->sequence(std::move(nodes));
    }
    return split(first, last, low, high, [&](bool still_low, bool still_high) {
      return integer_part(at + 1, still_low, still_high);
    });
  }

  /// A digit from `first` to `last`, the ends of which keep the text equal to a bound, and what
  /// follows it.
  template <typename Rest>
  Grammar::Node split(int first, int last, bool low, bool high, const Rest& rest) {
    std::vector<Grammar::Node> choices;
    const auto add = [&](int from, int to, bool still_low, bool still_high) {
      if (from > to) return;
      choices.push_back(
          grammar_->sequence({grammar_->byte(digits(from, to)), rest(still_low, still_high)}));
    };
    if (low && high && first == last) {
      add(first, first, true, true);
    } else if (first <= last) {
      if (low) add(first, first, true, false);
      add(first + (low ? 1 : 0), last - (high ? 1 : 0), false, false);
      if (high) add(last, last, false, true);
    }
    return grammar_->choice(std::move(choices));
  }

  Grammar::Node fraction(bool low, bool high) {
    const std::string &least = min_.value.fraction, &most = max_ ? max_->value.fraction : least;
    if (integer_) {
      // The bounds are whole numbers.
      const bool outside = (low && min_.exclusive) || (high && max_->exclusive);
      return outside ? grammar_->nothing() : grammar_->empty();
    }
    return grammar_->choice(
        {may_end(least, most, 0, low, high) ? grammar_->empty() : grammar_->nothing(),
         grammar_->sequence({grammar_->literal("."), tail(least, most, 0, low, high)})});
  }

  /// Whether a number whose first `at` digits are equal to a bound's may end there.
  bool may_end(const std::string& least, const std::string& most, size_t at, bool low, bool high) {
    if (low && (at < least.size() || min_.exclusive)) return false;
    return !high || at < most.size() || !max_->exclusive;
  }

  /// One digit or more of the fraction from `at` on.
  Grammar::Node tail(const std::string& least, const std::string& most, size_t at, bool low,
                     bool high) {
    if (low && at >= least.size() && !min_.exclusive) low = false;
    const Grammar::Node zeros =
        grammar_->repeat(grammar_->byte(digits(0, 0)), 0, Grammar::kUnlimited);
    const Grammar::Node any = grammar_->repeat(any_digit(), 0, Grammar::kUnlimited);
    if (!low && !high) return grammar_->sequence({any_digit(), any});
    const bool past_low = !low || at >= least.size(), past_high = !high || at >= most.size();
    if (past_low && past_high) {
      if (high) {
        return low || max_->exclusive ? grammar_->nothing()
                                      : grammar_->sequence({grammar_->literal("0"), zeros});
      }
      return grammar_->sequence({zeros, grammar_->byte(digits(1, 9)), any});
    }
    const int first = low && at < least.size() ? least[at] - '0' : 0;
    const int last = high ? (at < most.size() ? most[at] - '0' : 0) : 9;
    return split(first, last, low, high, [&](bool still_low, bool still_high) {
      const bool ends = may_end(least, most, at + 1, still_low, still_high);
      return grammar_->choice({ends ? grammar_->empty() : grammar_->nothing(),
                               tail(least, most, at + 1, still_low, still_high)});
    });
  }

  Grammar* grammar_;
  const Bound& min_;
  const std::optional<Bound>& max_;
  bool integer_;
  size_t length_ = 0;  ///< of the integer part
};

/// The whole number next to a bound, inside the range.
Bound rounded(const Bound& bound, bool up) {
  Bound whole = bound;
  if (whole.value.fraction.empty()) return whole;
  whole.exclusive = false;
  whole.value.fraction.clear();
  if (up != whole.value.negative) {  // away from zero
    std::string& digits = whole.value.integer;
    size_t at = digits.size();
    while (at > 0 && digits[at - 1] == '9') digits[--at] = '0';
    if (at > 0) {
      ++digits[at - 1];
    } else {
      digits.insert(digits.begin(), '1');
    }
  }
  whole.value.negative = whole.value.negative && !whole.value.is_zero();
  return whole;
}

}  // namespace

std::optional<Decimal> parse_decimal(std::string_view text) {
  Decimal decimal;
  if (!text.empty() && text[0] == '-') {
    decimal.negative = true;
    text.remove_prefix(1);
  }
  const size_t mark = text.find_first_of("eE");
  int64_t exponent = 0;
  if (mark != text.npos) {
    size_t at = mark + 1;
    const bool negative = text[at] == '-';
    if (negative || text[at] == '+') ++at;
    for (; at < text.size(); ++at)
      exponent = std::min<int64_t>(exponent * 10 + text[at] - '0', 1 << 20);
    if (negative) exponent = -exponent;
    text = text.substr(0, mark);
  }
  const size_t point = text.find('.');
  std::string all(text.substr(0, point));
  exponent += static_cast<int64_t>(all.size());
  if (point != text.npos) all += text.substr(point + 1);
  const size_t zeros = std::min(all.find_first_not_of('0'), all.size());
  all.erase(0, zeros);
  exponent -= static_cast<int64_t>(zeros);
  while (!all.empty() && all.back() == '0') all.pop_back();
  if (all.empty()) return Decimal{false, "0", ""};
  // The value is 0.all times ten to the power of `exponent`.
  const auto count = static_cast<int64_t>(all.size());
  if (exponent > kMaxDigits || count - exponent > kMaxDigits) return std::nullopt;
  if (exponent <= 0) {
    decimal.integer = "0";
    decimal.fraction = std::string(static_cast<size_t>(-exponent), '0') + all;
  } else {
    if (count < exponent) all.append(static_cast<size_t>(exponent - count), '0');
    decimal.integer = all.substr(0, static_cast<size_t>(exponent));
    decimal.fraction = all.substr(static_cast<size_t>(exponent));
  }
  return decimal;
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  const int order = compare_magnitudes(a, b);
  return a.negative ? -order : order;
}

Grammar::Node decimal_range(Grammar* grammar, const std::optional<Bound>& min,
                            const std::optional<Bound>& max, bool integer) {
  std::optional<Bound> low = min, high = max;
  if (integer && low) low = rounded(*low, /*up=*/true);
  if (integer && high) high = rounded(*high, /*up=*/false);
  if (low && high) {
    const int order = compare(low->value, high->value);
    if (order > 0 || (order == 0 && (low->exclusive || high->exclusive))) return grammar->nothing();
  }
  const Bound zero{{false, "0", ""}, false}, beyond_zero{{false, "0", ""}, true};
  std::vector<Grammar::Node> choices;
  if (!high || !high->value.negative) {
    const Bound from = low && !low->value.negative ? *low : zero;
    choices.push_back(Magnitudes(grammar, from, high, integer).build());
  }
  if (!low || low->value.negative) {
    std::optional<Bound> to;
    if (low) to = Bound{low->value.opposite(), low->exclusive};
    const Bound from =
        high && high->value.negative ? Bound{high->value.opposite(), high->exclusive} : beyond_zero;
    choices.push_back(
        grammar->sequence({grammar->literal("-"), Magnitudes(grammar, from, to, integer).build()}));
  }
  return grammar->choice(std::move(choices));
}

}  // namespace thimble
