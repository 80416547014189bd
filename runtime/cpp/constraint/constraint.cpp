#include "constraint/constraint.h"

#include <algorithm>
#include <utility>

#include "constraint/choice.h"
#include "constraint/gbnf.h"
#include "constraint/regex.h"
#include "constraint/schema.h"
#include "constraint/text_automaton.h"

namespace thimble {
namespace {

using Kind = ConstraintText::Kind;

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kJsonSchema:
      return "the JSON schema";
    case Kind::kRegex:
      return "the regular expression";
    case Kind::kChoice:
      return "the choice";
    default:
      return "the grammar";
  }
}

Result<Grammar::Node> parse(const ConstraintText& text, const TokenNames& tokens, Grammar* grammar,
                            SchemaReading* reading) {
  switch (text.kind) {
    case Kind::kJsonSchema:
      return parse_schema(text.text, tokens, grammar, reading);
    case Kind::kRegex:
      return parse_regex(text.text, grammar);
    case Kind::kChoice:
      return parse_choice(text.text, grammar);
    case Kind::kGrammar:
      return parse_gbnf(text.text, tokens, grammar, reading);
    case Kind::kNone:
      break;
  }
  return Status::error("there is no constraint");
}

}  // namespace

Status check_constraint(const ConstraintText& text) {
  const bool names_tokens = text.kind == Kind::kGrammar && text.text.find('<') != text.text.npos;
  if (text.kind == Kind::kNone || names_tokens) return {};
  Grammar grammar;
  SchemaReading reading{text.relax, {}};
  return parse(text, TokenNames({}, {}, {}, 0), &grammar, &reading).status();
}

Result<Program> compile_constraint(const ConstraintText& text, const TokenNames& tokens,
                                   SchemaReading* reading) {
  Grammar grammar;
  const Result<Grammar::Node> node = parse(text, tokens, &grammar, reading);
  if (!node.ok()) return node.status();
  Result<Program> program = compile_program(grammar, *node);
  if (program.ok()) return program;
  std::string name = name_of(text.kind);
  for (const char* within : {"%json", "%regex", "%gbnf"}) {
    if (text.kind == Kind::kGrammar && text.text.find(within) != text.text.npos) {
      name += ", or a constraint in it,";  // a server's users give it only that
      break;
    }
  }
  return Status::error(name + " " + program.message());
}

Result<std::unique_ptr<Constraint>> Constraint::compile(
    const ConstraintText& text, std::shared_ptr<const Vocabulary> vocabulary,
    const StillWanted& wanted) {
  const Interruption interruption(&wanted);
  SchemaReading reading{text.relax, {}};
  Result<Program> program = compile_constraint(text, vocabulary->names(), &reading);
  if (const Status wanted_still = interruption.status(); !wanted_still.ok()) return wanted_still;
  if (!program.ok()) return program.status();
  std::unique_ptr<Constraint> constraint(
      new Constraint(std::move(*program), std::move(vocabulary)));
  constraint->reading_ = std::move(reading);
  constraint->is_json_ = text.kind == Kind::kJsonSchema;
  return constraint;
}

bool Constraint::may_have(std::string_view part) const {
  constexpr size_t kMost = 4'000;  // states: a larger one is not searched
  const Program& program = recognizer_.program();
  const auto never_comes = [&](char byte) {
    const uint8_t symbol = program.symbol_of[static_cast<uint8_t>(byte)];
    return std::none_of(program.classes.begin(), program.classes.end(),
                        [=](const ByteSet& symbols) { return symbols[symbol]; });
  };
  if (program.texts.empty() && std::any_of(part.begin(), part.end(), never_comes)) return false;
  Grammar grammar;
  const Grammar::Node any = grammar.repeat(grammar.byte(ByteSet().set()), 0, Grammar::kUnlimited);
  Result<Program> with_part =
      compile_program(grammar, grammar.sequence({any, grammar.literal(part), any}));
  if (!with_part.ok()) return true;
  std::vector<AutomatonPart> both{{program, false}, {std::move(*with_part), false}};
  const Result<TextAutomaton> texts = intersect(std::move(both), kMost);
  return !texts.ok() || !texts->empty();
}

void Constraint::begin() {
  if (recognizer_.restart()) masks_.clear();
}

bool Matcher::accept(std::string_view bytes) {
  Recognizer& recognizer = constraint_->recognizer();
  Recognizer::State state = states_.back();
  for (const char c : bytes) {
    state = recognizer.next(state, static_cast<uint8_t>(c));
    if (state == Recognizer::kDead) return false;
  }
  states_.push_back(state);
  return true;
}

std::string Matcher::forced(size_t most) const {
  Recognizer& recognizer = constraint_->recognizer();
  Recognizer::State state = states_.back();
  std::string bytes;
  while (bytes.size() < most) {
    const int byte = recognizer.only_byte(state);
    if (byte < 0) break;
    bytes += static_cast<char>(byte);
    state = recognizer.next(state, static_cast<uint8_t>(byte));
  }
  const size_t mark = bytes.rfind(kMarkByte);
  if (mark != bytes.npos && bytes.size() - mark < kMarkSize) bytes.erase(mark);
  return bytes;
}

}  // namespace thimble
