#include "constraint/character_properties.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "constraint/code_points.h"
#include "constraint/unicode_runs.h"

namespace thimble {
namespace {

constexpr std::pair<std::string_view, std::string_view> kLongNames[] = {
    {"Letter", "L"},
    {"Cased_Letter", "LC"},
    {"Uppercase_Letter", "Lu"},
    {"Lowercase_Letter", "Ll"},
    {"Titlecase_Letter", "Lt"},
    {"Modifier_Letter", "Lm"},
    {"Other_Letter", "Lo"},
    {"Mark", "M"},
    {"Combining_Mark", "M"},
    {"Nonspacing_Mark", "Mn"},
    {"Spacing_Mark", "Mc"},
    {"Enclosing_Mark", "Me"},
    {"Number", "N"},
    {"Decimal_Number", "Nd"},
    {"digit", "Nd"},
    {"Letter_Number", "Nl"},
    {"Other_Number", "No"},
    {"Punctuation", "P"},
    {"punct", "P"},
    {"Connector_Punctuation", "Pc"},
    {"Dash_Punctuation", "Pd"},
    {"Open_Punctuation", "Ps"},
    {"Close_Punctuation", "Pe"},
    {"Initial_Punctuation", "Pi"},
    {"Final_Punctuation", "Pf"},
    {"Other_Punctuation", "Po"},
    {"Symbol", "S"},
    {"Math_Symbol", "Sm"},
    {"Currency_Symbol", "Sc"},
    {"Modifier_Symbol", "Sk"},
    {"Other_Symbol", "So"},
    {"Separator", "Z"},
    {"Space_Separator", "Zs"},
    {"Line_Separator", "Zl"},
    {"Paragraph_Separator", "Zp"},
    {"Other", "C"},
    {"Control", "Cc"},
    {"cntrl", "Cc"},
    {"Format", "Cf"},
    {"Private_Use", "Co"},
    {"Unassigned", "Cn"}};

/// Reads what tests/support/unicode_runs.py wrote.
class RunReader {
 public:
  explicit RunReader(std::string_view text) : text_(text) {}

  bool more() const { return at_ < text_.size(); }

  uint32_t symbol() {
    const char c = text_[at_++];
    return static_cast<uint32_t>(c - '#' - (c > '?' ? 1 : 0) - (c > '\\' ? 1 : 0));
  }

  uint32_t number() {
    constexpr uint32_t kDigits = 45;
    uint32_t value = 0;
    for (;;) {
      const uint32_t digit = symbol();
      value = value * kDigits + digit % kDigits;
      if (digit < kDigits) return value;
    }
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

bool is_of_category(std::string_view category, std::string_view asked) {
  if (asked == "LC") return category == "Lu" || category == "Ll" || category == "Lt";
  return category.substr(0, asked.size()) == asked;
}

CodePoints characters_of_category(std::string_view asked) {
  std::vector<CodePoints::Range> ranges;
  RunReader runs(kCategoryRuns);
  for (uint32_t first = 0; runs.more();) {
    const uint32_t symbol = runs.symbol();
    const uint32_t length = symbol % 3 == 2 ? runs.number() + 3 : symbol % 3 + 1;
    if (is_of_category(kCategories[symbol / 3], asked)) {
      ranges.push_back({first, first + length - 1});
    }
    first += length;
    if (first == kSurrogates) first = kAfterSurrogates;
  }
  CodePoints points;
  points.add(ranges);
  return points;
}

CodePoints characters_of_script(const Script& script) {
  std::vector<CodePoints::Range> ranges;
  RunReader runs(script.runs);
  for (uint32_t at = 0; runs.more();) {
    const uint32_t first = at + runs.number();
    at = first + runs.number() + 1;
    ranges.push_back({first, at - 1});
  }
  CodePoints points;
  points.add(ranges);
  return points;
}

bool take(std::string_view* text, std::string_view beginning) {
  if (text->substr(0, beginning.size()) != beginning) return false;
  text->remove_prefix(beginning.size());
  return true;
}

}  // namespace

std::optional<CodePoints> characters_of_property(std::string_view name) {
  const bool is_category = take(&name, "General_Category=") || take(&name, "gc=");
  const bool is_script = !is_category && (take(&name, "Script=") || take(&name, "sc="));
  if (!is_script) {
    for (const auto& [other, short_name] : kLongNames) {
      if (name == other || name == short_name) return characters_of_category(short_name);
    }
  }
  if (is_category) return std::nullopt;
  for (const Script& script : kScripts) {
    if (name == script.name || name == script.short_name) return characters_of_script(script);
  }
  if (is_script) return std::nullopt;
  if (name == "Any") return CodePoints::all();
  if (name == "ASCII") return CodePoints(0, 0x7F);
  if (name == "Assigned") return characters_of_category("Cn").complement();
  return std::nullopt;
}

std::string known_properties() {
  std::string names = "Any, ASCII, Assigned, general categories such as L or Lu, and the scripts ";
  for (size_t i = 0; i < std::size(kScripts); ++i) {
    names += (i == 0 ? "" : i + 1 < std::size(kScripts) ? ", " : " and ");
    names += kScripts[i].name;
  }
  return names;
}

CodePoints word_characters() {
  CodePoints points('0', '9');
  points.add('A', 'Z');
  points.add('a', 'z');
  points.add('_', '_');
  return points;
}

CodePoints white_space() {
  CodePoints points('\t', '\r');
  for (const uint32_t point : {0x20u, 0xA0u, 0x1680u, 0x202Fu, 0x205Fu, 0x3000u, 0xFEFFu}) {
    points.add(point, point);
  }
  points.add(0x2000, 0x200A);
  points.add(0x2028, 0x2029);
  return points;
}

CodePoints line_terminators() {
  CodePoints points('\n', '\n');
  points.add('\r', '\r');
  points.add(0x2028, 0x2029);
  return points;
}

}  // namespace thimble
