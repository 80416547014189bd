#include "constraint/json.h"

#include <algorithm>
#include <cstdio>
#include <unordered_set>
#include <utility>

#include "tokenizer/utf8.h"

namespace thimble {
namespace {

constexpr int kMaxDepth = 128;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Parser {
 public:
  explicit Parser(std::string_view text, size_t at = 0) : text_(text), at_(at) {}

  Result<Json> parse() {
    Json value;
    skip_space();
    if (!parse_value(&value, 0)) return error_;
    skip_space();
    if (at_ < text_.size()) {
      (void)fail("a second value");
      return error_;
    }
    return value;
  }

  Result<Json> parse_one(size_t* at) {
    Json value;
    if (!parse_value(&value, 0)) return error_;
    *at = at_;
    return value;
  }

 private:
  bool fail(const std::string& what) {
    const std::string_view before = text_.substr(0, at_);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const size_t column = at_ - (before.rfind('\n') == before.npos ? 0 : before.rfind('\n') + 1);
    error_ = Status::error("the JSON is not valid at line " + std::to_string(line) + ", column " +
                           std::to_string(column + 1) + ": " + what);
    return false;
  }

  bool fail_here(const char* missing) {
    return fail(std::string(missing) + " is missing" + (at_ < text_.size() ? "" : " at the end"));
  }

  void skip_space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) {
      ++at_;
    }
  }

  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  bool parse_word(std::string_view word, Json::Kind kind, Json* value) {
    if (text_.substr(at_, word.size()) != word) return fail_here("a value");
    at_ += word.size();
    value->kind = kind;
    return true;
  }

  bool parse_value(Json* value, int depth) {
    if (depth > kMaxDepth) {
      return fail("it has more than " + std::to_string(kMaxDepth) + " levels");
    }
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    switch (c) {
      case '{':
        return parse_object(value, depth);
      case '[':
        return parse_array(value, depth);
      case '"':
        value->kind = Json::Kind::kString;
        return parse_string(&value->text);
      case 't':
        return parse_word("true", Json::Kind::kTrue, value);
      case 'f':
        return parse_word("false", Json::Kind::kFalse, value);
      case 'n':
        return parse_word("null", Json::Kind::kNull, value);
      default:
        return c == '-' || is_digit(c) ? parse_number(value) : fail_here("a value");
    }
  }

  bool parse_object(Json* value, int depth) {
    value->kind = Json::Kind::kObject;
    std::unordered_set<std::string> seen;
    ++at_;
    skip_space();
    if (take('}')) return true;
    do {
      skip_space();
      std::string key;
      if (at_ >= text_.size() || text_[at_] != '"') return fail_here("a key in quotes");
      if (!parse_string(&key)) return false;
      if (!seen.insert(key).second) return fail("the key " + quoted_json(key) + " is repeated");
      skip_space();
      if (!take(':')) return fail_here("a colon");
      skip_space();
      value->keys.push_back(std::move(key));
      value->values.emplace_back();
      if (!parse_value(&value->values.back(), depth + 1)) return false;
      skip_space();
    } while (take(','));
    return take('}') || fail_here("a comma or }");
  }

  bool parse_array(Json* value, int depth) {
    value->kind = Json::Kind::kArray;
    ++at_;
    skip_space();
    if (take(']')) return true;
    do {
      skip_space();
      value->values.emplace_back();
      if (!parse_value(&value->values.back(), depth + 1)) return false;
      skip_space();
    } while (take(','));
    return take(']') || fail_here("a comma or ]");
  }

  bool parse_digits() {
    if (at_ >= text_.size() || !is_digit(text_[at_])) return fail_here("a digit");
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    return true;
  }

  bool parse_number(Json* value) {
    const size_t begin = at_;
    take('-');
    if (take('0')) {
      if (at_ < text_.size() && is_digit(text_[at_])) return fail("a number begins with 0");
    } else if (!parse_digits()) {
      return false;
    }
    if (take('.') && !parse_digits()) return false;
    if (take('e') || take('E')) {
      if (!take('-')) take('+');
      if (!parse_digits()) return false;
    }
    value->kind = Json::Kind::kNumber;
    value->text = text_.substr(begin, at_ - begin);
    return true;
  }

  bool parse_string(std::string* text) {
    ++at_;
    while (at_ < text_.size() && text_[at_] != '"') {
      const auto byte = static_cast<unsigned char>(text_[at_]);
      if (byte < 0x20) return fail("a control character in a string is not escaped");
      if (byte == '\\') {
        if (!parse_escape(text)) return false;
        continue;
      }
      const Utf8Scan scan = scan_utf8(text_.substr(at_));
      if (scan.kind != Utf8Kind::kWhole) return fail("a string is not UTF-8");
      text->append(text_, at_, scan.length);
      at_ += scan.length;
    }
    return take('"') || fail_here("a closing quote");
  }

  bool parse_escape(std::string* text) {
    constexpr std::string_view kLetters = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
    ++at_;
    const size_t letter = at_ < text_.size() ? kLetters.find(text_[at_]) : kLetters.npos;
    if (letter != kLetters.npos) {
      ++at_;
      *text += kMeanings[letter];
      return true;
    }
    if (!take('u')) return fail("a backslash is followed by no escape");
    uint32_t point = 0;
    if (!parse_hex(&point)) return false;
    if (point >= 0xD800 && point < 0xE000) {
      uint32_t low = 0;
      if (point >= 0xDC00 || !take('\\') || !take('u')) return fail("a surrogate is alone");
      if (!parse_hex(&low)) return false;
      if (low < 0xDC00 || low >= 0xE000) return fail("a surrogate is alone");
      point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
    }
    append_utf8(point, text);
    return true;
  }

  bool parse_hex(uint32_t* point) {
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = at_ < text_.size() ? text_[at_] : '\0';
      const char lower = static_cast<char>(c | 0x20);
      if (!is_digit(c) && (lower < 'a' || lower > 'f')) return fail_here("a hexadecimal digit");
      *point = *point << 4 | static_cast<uint32_t>(is_digit(c) ? c - '0' : lower - 'a' + 10);
    }
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
  Status error_;
};

void append(const Json& value, std::string* text) {
  switch (value.kind) {
    case Json::Kind::kNull:
      *text += "null";
      break;
    case Json::Kind::kFalse:
      *text += "false";
      break;
    case Json::Kind::kTrue:
      *text += "true";
      break;
    case Json::Kind::kNumber:
      *text += value.text;
      break;
    case Json::Kind::kString:
      *text += quoted_json(value.text);
      break;
    case Json::Kind::kArray:
    case Json::Kind::kObject: {
      const bool object = value.is(Json::Kind::kObject);
      *text += object ? '{' : '[';
      for (size_t i = 0; i < value.values.size(); ++i) {
        if (i > 0) *text += ',';
        if (object) *text += quoted_json(value.keys[i]) + ':';
        append(value.values[i], text);
      }
      *text += object ? '}' : ']';
      break;
    }
  }
}

}  // namespace

const Json* Json::find(std::string_view key) const {
  const auto place = std::find(keys.begin(), keys.end(), key);
  return place == keys.end() ? nullptr : &values[static_cast<size_t>(place - keys.begin())];
}

void Json::set(std::string_view key, Json value) {
  const auto place = std::find(keys.begin(), keys.end(), key);
  if (place != keys.end()) {
    values[static_cast<size_t>(place - keys.begin())] = std::move(value);
    return;
  }
  append(key, std::move(value));
}

void Json::append(std::string_view key, Json value) {
  keys.emplace_back(key);
  values.push_back(std::move(value));
}

void Json::remove(std::string_view key) {
  const auto place = std::find(keys.begin(), keys.end(), key);
  if (place == keys.end()) return;
  values.erase(values.begin() + (place - keys.begin()));
  keys.erase(place);
}

Result<Json> parse_json(std::string_view text) { return Parser(text).parse(); }

Result<Json> parse_json_within(std::string_view text, size_t* at) {
  return Parser(text, *at).parse_one(at);
}

std::string to_text(const Json& value) {
  std::string text;
  append(value, &text);
  return text;
}

std::string quoted_json(std::string_view text) {
  constexpr std::string_view kEscaped = "\"\\\b\f\n\r\t", kLetters = "\"\\bfnrt";
  std::string quoted = "\"";
  for (const char c : text) {
    const size_t place = kEscaped.find(c);
    if (place != kEscaped.npos) {
      quoted += {'\\', kLetters[place]};
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", static_cast<unsigned>(c));
      quoted += escape;
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

}  // namespace thimble
