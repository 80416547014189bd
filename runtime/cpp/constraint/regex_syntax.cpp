#include "constraint/regex_syntax.h"

#include <optional>
#include <string>
#include <utility>

#include "constraint/character_properties.h"
#include "constraint/grammar.h"
#include "tokenizer/utf8.h"

namespace thimble {
namespace {

constexpr int kMaxDepth = 200;
constexpr uint64_t kMaxCount = 1'000'000'000;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Regex> parse() {
    Regex regex;
    if (with_valid_utf8(text_) != text_) {
      (void)fail(0, "it is not UTF-8");
      return error_;
    }
    if (!parse_choice(&regex, 0)) return error_;
    if (at_ < text_.size()) {
      (void)fail(at_, "a group is closed that was not opened");
      return error_;
    }
    return regex;
  }

 private:
  bool fail(size_t offset, const std::string& what) {
    error_ = Status::error("the regular expression " + shown() + " is refused at offset " +
                           std::to_string(offset) + ": " + what);
    return false;
  }

  std::string shown() const {
    constexpr size_t kMost = 60;
    const std::string text = with_valid_utf8(text_.substr(0, kMost));
    return "'" + text + (text_.size() > kMost ? "...'" : "'");
  }

  bool more() const { return at_ < text_.size(); }
  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool take(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  bool parse_choice(Regex* regex, int depth) {
    if (depth > kMaxDepth) {
      return fail(at_, "groups are nested in more than " + std::to_string(kMaxDepth) + " levels");
    }
    Regex choice{Regex::Kind::kChoice, {}, 0, 0, {}, at_};
    do {
      choice.parts.emplace_back();
      if (!parse_sequence(&choice.parts.back(), depth)) return false;
      choice.has_boundary = choice.has_boundary || choice.parts.back().has_boundary;
    } while (take("|"));
    *regex = choice.parts.size() == 1 ? std::move(choice.parts[0]) : std::move(choice);
    return true;
  }

  bool parse_sequence(Regex* sequence, int depth) {
    sequence->offset = at_;
    while (more() && peek() != '|' && peek() != ')') {
      Regex part;
      part.offset = at_;
      if (!parse_atom(&part, depth) || !parse_quantifiers(&part)) return false;
      sequence->has_boundary = sequence->has_boundary || part.has_boundary;
      sequence->parts.push_back(std::move(part));
    }
    return true;
  }

  bool parse_atom(Regex* atom, int depth) {
    const char c = peek();
    switch (c) {
      case '^':
      case '$':
        ++at_;
        atom->kind = c == '^' ? Regex::Kind::kBegin : Regex::Kind::kEnd;
        return true;
      case '(':
        return parse_group(atom, depth);
      case '*':
      case '+':
      case '?':
        return fail(at_, std::string("nothing stands before ") + c);
      case '{':
        return fail(at_, "a { has no meaning here: write \\{");
      default:
        break;
    }
    if (c == '\\' && (peek(1) == 'b' || peek(1) == 'B')) {
      atom->kind = Regex::Kind::kBoundary;
      atom->negated = peek(1) == 'B';
      atom->has_boundary = true;
      at_ += 2;
      return true;
    }
    atom->kind = Regex::Kind::kCharacter;
    if (c == '[') return parse_class(&atom->points);
    if (c == '\\') return parse_escape(&atom->points);
    if (c == '.') {
      ++at_;
      atom->points = line_terminators().complement();
      return true;
    }
    const uint32_t point = next_code_point(text_, &at_);
    atom->points.add(point, point);
    return true;
  }

  bool parse_group(Regex* group, int depth) {
    const size_t begin = at_++;
    if (take("?")) {
      for (const auto& [mark, name] :
           {std::pair{"<=", "a lookbehind"}, {"<!", "a negative lookbehind"}}) {
        if (take(mark)) return fail(begin, std::string(name) + " is not supported");
      }
      if (peek() == '=' || peek() == '!') return parse_lookahead(group, begin, depth);
      if (take("<")) {
        const size_t end = text_.find('>', at_);
        if (end == text_.npos) return fail(begin, "the name of a group is not closed");
        at_ = end + 1;
      } else if (!take(":")) {
        return fail(begin, "the kind of this group is not supported");
      }
    }
    if (!parse_choice(group, depth + 1)) return false;
    return take(")") || fail(begin, "a group is not closed");
  }

  bool parse_lookahead(Regex* lookahead, size_t begin, int depth) {
    lookahead->kind = Regex::Kind::kLookahead;
    lookahead->negated = text_[at_++] == '!';
    lookahead->parts.emplace_back();
    if (!parse_choice(&lookahead->parts[0], depth + 1)) return false;
    lookahead->has_boundary = lookahead->parts[0].has_boundary;
    return take(")") || fail(begin, "a group is not closed");
  }

  bool parse_quantifiers(Regex* part) {
    uint64_t min = 0, max = 0;
    const size_t begin = at_;
    if (take("*")) {
      max = Grammar::kUnlimited;
    } else if (take("+")) {
      min = 1;
      max = Grammar::kUnlimited;
    } else if (take("?")) {
      max = 1;
    } else if (peek() == '{') {
      if (!parse_bounds(&min, &max)) return false;
    } else {
      return true;
    }
    take("?");  // lazy: the same texts
    if (peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{') {
      return fail(at_, "a quantifier follows another");
    }
    switch (part->kind) {
      case Regex::Kind::kBegin:
      case Regex::Kind::kEnd:
      case Regex::Kind::kBoundary:
      case Regex::Kind::kLookahead:
        return fail(begin, "an anchor or a lookahead cannot be repeated");
      default:
        break;
    }
    Regex repeat{Regex::Kind::kRepeat, {}, min, max, {}, part->offset, false, part->has_boundary};
    repeat.parts.push_back(std::move(*part));
    *part = std::move(repeat);
    return true;
  }

  bool parse_bounds(uint64_t* min, uint64_t* max) {
    const size_t begin = at_++;
    if (!parse_count(begin, min)) return false;
    *max = *min;
    if (take(",")) {
      *max = Grammar::kUnlimited;
      if (peek() != '}' && !parse_count(begin, max)) return false;
    }
    if (!take("}")) return fail(begin, "a { has no meaning here: write \\{");
    return *min <= *max || fail(begin, "the bounds of a repetition are in the wrong order");
  }

  bool parse_count(size_t begin, uint64_t* count) {
    if (peek() < '0' || peek() > '9') return fail(begin, "a { has no meaning here: write \\{");
    for (*count = 0; peek() >= '0' && peek() <= '9'; ++at_) {
      *count = *count * 10 + static_cast<uint64_t>(peek() - '0');
      if (*count > kMaxCount) {
        return fail(begin, "a repetition has more than " + std::to_string(kMaxCount) + " times");
      }
    }
    return true;
  }

  bool parse_class(CodePoints* points) {
    const size_t begin = at_++;
    const bool negated = take("^");
    std::vector<CodePoints::Range> ranges;
    while (more() && peek() != ']') {
      CodePoints first;
      const size_t at = at_;
      if (!parse_member(&first)) return false;
      if (peek() != '-' || peek(1) == ']' || at_ + 1 >= text_.size()) {
        ranges.insert(ranges.end(), first.ranges().begin(), first.ranges().end());
        continue;
      }
      ++at_;
      CodePoints last;
      if (!parse_member(&last)) return false;
      const auto single = [](const CodePoints& set) {
        return set.ranges().size() == 1 && set.ranges()[0].first == set.ranges()[0].last;
      };
      if (!single(first) || !single(last) || first.ranges()[0].first > last.ranges()[0].first) {
        return fail(at, "a range of characters is not from a smaller to a larger one");
      }
      ranges.push_back({first.ranges()[0].first, last.ranges()[0].first});
    }
    if (!take("]")) return fail(begin, "a class is not closed");
    points->add(ranges);
    if (negated) *points = points->complement();
    return true;
  }

  bool parse_member(CodePoints* points) {
    if (peek() == '\\') return parse_escape(points);
    const uint32_t point = next_code_point(text_, &at_);
    points->add(point, point);
    return true;
  }

  bool parse_escape(CodePoints* points) {
    const size_t begin = at_++;
    if (!more()) return fail(begin, "a backslash ends it");
    const char c = text_[at_];
    const auto single = [&](uint32_t point) {
      ++at_;
      points->add(point, point);
      return true;
    };
    const auto set = [&](const CodePoints& other) {
      ++at_;
      *points = other;
      return true;
    };
    switch (c) {
      case 'd':
        return set(CodePoints('0', '9'));
      case 'D':
        return set(CodePoints('0', '9').complement());
      case 'w':
        return set(word_characters());
      case 'W':
        return set(word_characters().complement());
      case 's':
        return set(white_space());
      case 'S':
        return set(white_space().complement());
      case 't':
        return single('\t');
      case 'n':
        return single('\n');
      case 'v':
        return single('\v');
      case 'f':
        return single('\f');
      case 'r':
        return single('\r');
      case '0':
        if (peek(1) >= '0' && peek(1) <= '9')
          return fail(begin, "an octal escape is not supported");
        return single(0);
      case 'b':  // elsewhere it is a word's boundary
        return single('\b');
      case 'p':
      case 'P':
        return parse_property(begin, points);
      case 'k':
        return fail(begin, "the back reference \\k is not supported");
      case 'c': {
        const char letter = static_cast<char>(peek(1) | 0x20);
        if (letter < 'a' || letter > 'z') return fail(begin, "\\c is followed by no letter");
        ++at_;
        return single(static_cast<uint32_t>(letter - 'a' + 1));
      }
      case 'x':
        return parse_hex(begin, 2, points);
      case 'u':
        return parse_unicode(begin, points);
      default:
        break;
    }
    if (c >= '1' && c <= '9') {
      return fail(begin, std::string("the back reference \\") + c + " is not supported");
    }
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (letter) return fail(begin, std::string("the escape \\") + c + " has no meaning");
    const uint32_t point = next_code_point(text_, &at_);
    points->add(point, point);
    return true;
  }

  bool parse_property(size_t begin, CodePoints* points) {
    const bool negated = text_[at_++] == 'P';
    const size_t end = text_.find('}', at_);
    if (!take("{") || end == text_.npos) {
      return fail(begin, "a Unicode property has its name in braces, as in \\p{L}");
    }
    const std::string_view name = text_.substr(at_, end - at_);
    const std::optional<CodePoints> found = characters_of_property(name);
    if (!found.has_value()) {
      return fail(begin, "the Unicode property '" + std::string(name) +
                             "' is not supported: " + known_properties() + " are");
    }
    at_ = end + 1;
    *points = negated ? found->complement() : *found;
    return true;
  }

  bool read_hex(size_t count, uint32_t* point) {
    for (size_t i = 0; i < count; ++i) {
      const char c = peek(), lower = static_cast<char>(c | 0x20);
      const bool digit = c >= '0' && c <= '9';
      if (!digit && (lower < 'a' || lower > 'f')) return false;
      *point = *point << 4 | static_cast<uint32_t>(digit ? c - '0' : lower - 'a' + 10);
      ++at_;
    }
    return true;
  }

  bool parse_hex(size_t begin, size_t count, CodePoints* points) {
    ++at_;
    uint32_t point = 0;
    if (!read_hex(count, &point)) return fail(begin, "an escape lacks hexadecimal digits");
    points->add(point, point);
    return true;
  }

  bool parse_unicode(size_t begin, CodePoints* points) {
    ++at_;
    uint32_t point = 0;
    if (take("{")) {
      const size_t end = text_.find('}', at_);
      const size_t count = end == text_.npos ? 0 : end - at_;
      if (count == 0 || count > 6 || !read_hex(count, &point) || point > 0x10FFFF) {
        return fail(begin, "\\u{...} is no code point");
      }
      ++at_;
    } else if (!read_hex(4, &point)) {
      return fail(begin, "an escape lacks hexadecimal digits");
    } else if (point >= 0xD800 && point < 0xDC00) {
      uint32_t low = 0;
      if (!take("\\u") || !read_hex(4, &low)) low = 0;
      if (low < 0xDC00 || low > 0xDFFF) return fail(begin, "a surrogate is alone");
      point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
    }
    if (point >= 0xD800 && point < 0xE000) return fail(begin, "a surrogate is alone");
    points->add(point, point);
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
  Status error_;
};

}  // namespace

Result<Regex> parse_regex_syntax(std::string_view text) { return Parser(text).parse(); }

}  // namespace thimble
