#include "tokenizer/chat_template.h"

#include <algorithm>
#include <utility>

#include "tokenizer/utf8.h"

namespace thimble {
namespace {

constexpr uint32_t kFirstVersion = 1, kVersion = 2;

enum Field {
  kVersionField,
  kWithSystem,
  kWithoutSystem,
  kSource,
  kReason,
  kBosToken,
  kEosToken,
  kTokens,
  kToolSource,
};
enum TokenField { kName, kTokenText };
enum FormField { kEdges, kRules, kSystemBeforeLastUser, kPictureEdges };
enum EdgeField { kOrigin, kTarget, kText };
enum PictureEdgeField { kPictureOrigin, kPictureTarget, kBefore, kPicture, kAfter };
enum RuleField { kRulePlace, kStripLeft, kStripRight, kBehind };

enum Place : uint8_t {
  kStart,
  kSystem,
  kOnlyUser,
  kFirstUser,
  kUser,
  kLastUser,
  kAssistant,
  kEnd,
  kPrompt,
};
enum Strip : uint8_t { kNothing, kStripWhiteSpace, kStripNewlines };

/// A message and its place; it is null at the start and end of the conversation.
struct Stop {
  Place place;
  const Message* message;
};

/// White space as in Python's str.strip().
bool is_python_space(uint32_t point) {
  return is_white_space(point) || (point >= 0x1C && point <= 0x1F);
}

bool strips(uint8_t strip, uint32_t point) {
  return strip == kStripWhiteSpace ? is_python_space(point)
                                   : strip == kStripNewlines && point == '\n';
}

std::string_view strip_left(std::string_view text, uint8_t strip) {
  for (size_t position = 0; !text.empty(); position = 0) {
    if (!strips(strip, next_code_point(text, &position))) break;
    text.remove_prefix(position);
  }
  return text;
}

std::string_view strip_right(std::string_view text, uint8_t strip) {
  while (!text.empty()) {
    size_t last = text.size() - 1;
    while (last > 0 && (static_cast<uint8_t>(text[last]) & 0xC0) == 0x80) --last;
    size_t position = last;
    if (!strips(strip, next_code_point(text, &position))) break;
    text = text.substr(0, last);
  }
  return text;
}

std::string render_content(const FlatbufferTable& form, const Stop& stop) {
  const std::string valid = with_valid_utf8(stop.message->content);
  std::string_view content = valid;
  const FlatbufferTables rules = form.tables(kRules);
  for (size_t i = 0; i < rules.size(); ++i) {
    const FlatbufferTable rule = rules[i];
    if (rule.scalar<uint8_t>(kRulePlace) != stop.place) continue;
    const std::string_view behind = rule.string(kBehind);
    const size_t end = behind.empty() ? std::string_view::npos : content.rfind(behind);
    if (end != std::string_view::npos) {
      content = strip_left(content.substr(end + behind.size()), kStripNewlines);
    }
    content = strip_left(content, rule.scalar<uint8_t>(kStripLeft));
    content = strip_right(content, rule.scalar<uint8_t>(kStripRight));
  }
  return std::string(content);
}

/// The template's text between two places.
std::string_view text_between(const FlatbufferTable& form, Place origin, Place target) {
  const FlatbufferTables edges = form.tables(kEdges);
  for (size_t i = 0; i < edges.size(); ++i) {
    const FlatbufferTable edge = edges[i];
    if (edge.scalar<uint8_t>(kOrigin) == origin && edge.scalar<uint8_t>(kTarget) == target) {
      return edge.string(kText);
    }
  }
  return {};
}

/// The same where a user's message with so many pictures is the target.
Result<std::string> text_before_pictures(const FlatbufferTable& form, Place origin, Place target,
                                         size_t pictures) {
  const FlatbufferTables edges = form.tables(kPictureEdges);
  for (size_t i = 0; i < edges.size(); ++i) {
    const FlatbufferTable edge = edges[i];
    if (edge.scalar<uint8_t>(kPictureOrigin) != origin ||
        edge.scalar<uint8_t>(kPictureTarget) != target) {
      continue;
    }
    std::string text(edge.string(kBefore));
    for (size_t n = 0; n < pictures; ++n) text += edge.string(kPicture);
    return text + std::string(edge.string(kAfter));
  }
  return Status::error(
      "the model's chat template has no place for pictures: leave them out, or write the prompt in "
      "the model's own format");
}

/// The places of the turns after the system message, from `start` to `end` or `prompt`.
Result<std::vector<Stop>> place_turns(const Message* turns, size_t count, bool prompt) {
  if (count % 2 == 0) {
    return Status::error("the conversation does not end with a user's message: add one");
  }
  std::vector<Stop> stops = {{kStart, nullptr}};
  for (size_t i = 0; i < count; ++i) {
    const bool is_user = i % 2 == 0;
    if (turns[i].role != (is_user ? "user" : "assistant")) {
      return Status::error(
          "message " + std::to_string(i + 1) + " of the conversation has the role " +
          turns[i].role + "; it must be " + (is_user ? "user" : "assistant") +
          ": after at most one system message, user and assistant messages must alternate");
    }
    const bool last = i + 1 == count;
    const Place place = !is_user ? kAssistant
                        : i == 0 ? (last ? kOnlyUser : kFirstUser)
                                 : (last ? kLastUser : kUser);
    stops.push_back({place, &turns[i]});
  }
  stops.push_back({prompt ? kPrompt : kEnd, nullptr});
  return stops;
}

}  // namespace

Result<ChatTemplate> ChatTemplate::load(const uint8_t* data, size_t size) {
  const FlatbufferTable table = flatbuffer_root(data, size, "THCT");
  if (!table.valid()) {
    return Status::error("the compiled chat template is damaged: export the model again");
  }
  const auto version = table.scalar<uint32_t>(kVersionField);
  if (version < kFirstVersion || version > kVersion) {
    return Status::error("the compiled chat template has version " + std::to_string(version) +
                         "; this program reads versions " + std::to_string(kFirstVersion) + " to " +
                         std::to_string(kVersion) + ": export the model again");
  }
  ChatTemplate chat_template;
  chat_template.table_ = table;
  return chat_template;
}

std::string_view ChatTemplate::source() const {
  const bool whole = table_.scalar<uint32_t>(kVersionField) > kFirstVersion;
  return whole ? table_.string(kSource) : std::string_view();
}

std::optional<std::string_view> ChatTemplate::text(int field) const {
  if (!table_.has(field)) return std::nullopt;
  return table_.string(field);
}

std::optional<std::string_view> ChatTemplate::tool_source() const { return text(kToolSource); }
std::optional<std::string_view> ChatTemplate::bos_token() const { return text(kBosToken); }
std::optional<std::string_view> ChatTemplate::eos_token() const { return text(kEosToken); }

std::vector<std::pair<std::string_view, std::string_view>> ChatTemplate::tokens() const {
  std::vector<std::pair<std::string_view, std::string_view>> tokens;
  const FlatbufferTables tables = table_.tables(kTokens);
  for (size_t i = 0; i < tables.size(); ++i) {
    tokens.emplace_back(tables[i].string(kName), tables[i].string(kTokenText));
  }
  return tokens;
}

Result<std::vector<Piece>> ChatTemplate::render(const std::vector<Message>& messages,
                                                bool add_generation_prompt) const {
  if (!table_.string(kReason).empty()) {
    return Status::error("the model's chat template is stored as text only (" +
                         std::string(table_.string(kReason)) +
                         "): write the prompt in the model's own format instead");
  }
  const bool has_system = !messages.empty() && messages[0].role == "system";
  const FlatbufferTable form = table_.table(has_system ? kWithSystem : kWithoutSystem);
  if (!form.valid()) {
    return Status::error(
        has_system ? "the model's chat template does not support a system message: leave it out"
                   : "the model's chat template needs a system message: give one");
  }
  const size_t skipped = has_system ? 1 : 0;
  Result<std::vector<Stop>> stops =
      place_turns(messages.data() + skipped, messages.size() - skipped, add_generation_prompt);
  if (!stops.ok()) return stops.status();
  if (has_system) {
    const bool before_last = form.scalar<uint8_t>(kSystemBeforeLastUser) != 0;
    const auto where = before_last ? stops->end() - 2 : stops->begin() + 1;
    stops->insert(where, Stop{kSystem, &messages[0]});
  }
  std::vector<Piece> pieces;
  for (size_t i = 0; i + 1 < stops->size(); ++i) {
    const Stop &stop = (*stops)[i], &next = (*stops)[i + 1];
    if (stop.message != nullptr) pieces.push_back({render_content(form, stop), /*literal=*/false});
    const size_t pictures = next.message == nullptr ? 0 : next.message->pictures.size();
    if (pictures == 0) {
      const std::string_view text = text_between(form, stop.place, next.place);
      pieces.push_back({std::string(text), /*literal=*/true});
      continue;
    }
    Result<std::string> text = text_before_pictures(form, stop.place, next.place, pictures);
    if (!text.ok()) return text.status();
    pieces.push_back({std::move(*text), /*literal=*/true});
  }
  return pieces;
}

}  // namespace thimble
