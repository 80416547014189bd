// Constraints at the end of a pipe, for tests:
//   constraint_cli MODE < requests > answers
// texts: a kind (json-schema, relaxed-schema, regex, choice or grammar), its text, then texts -> an
// error, or '+' and for each text '0' if nothing that matches begins so, '-' if it is the beginning
// of one that matches, '1' if it matches and may go on, '2' if it matches and cannot. forced: the
// same with one text -> the bytes that must follow it. masks: first a vocabulary's texts, the ids
// that end a text and names; then requests of texts (a kind, its text) and ids -> an error or '+';
// then, for each id and once before, the mask at that place, as far as the ids are allowed. A token
// without a name has an empty one. The framing is binary_requests.h's.

#include <memory>
#include <string>
#include <vector>

#include "constraint/constraint.h"
#include "tests/binary_requests.h"

namespace thimble {
namespace {

ConstraintText constraint_text(const std::vector<std::string>& request) {
  using Kind = ConstraintText::Kind;
  const std::string& kind = request[0];
  return {kind == "json-schema" || kind == "relaxed-schema" ? Kind::kJsonSchema
          : kind == "regex"                                 ? Kind::kRegex
          : kind == "choice"                                ? Kind::kChoice
                                                            : Kind::kGrammar,
          request[1], kind == "relaxed-schema"};
}

char place_of(const Matcher& start, const std::string& text) {
  Matcher matcher = start;
  if (!matcher.accept(text)) return '0';
  return matcher.ended() ? '2' : matcher.complete() ? '1' : '-';
}

void check_texts(bool forced) {
  const auto vocabulary = std::make_shared<Vocabulary>(std::vector<std::string_view>(),
                                                       std::vector<int32_t>(), size_t{0});
  for (std::vector<std::string> request; read_texts(&request);) {
    const auto constraint = Constraint::compile(constraint_text(request), vocabulary);
    std::string answer = constraint.ok() ? "+" : constraint.message();
    if (constraint.ok()) {
      Matcher start(**constraint);
      for (size_t i = 2; i < request.size(); ++i) {
        if (!forced) answer += place_of(start, request[i]);
        if (forced && start.accept(request[i])) answer = start.forced(1 << 16);
      }
    }
    write_text(answer);
  }
}

void write_masks() {
  std::vector<std::string> tokens, named;
  std::vector<int32_t> ends;
  if (!read_texts(&tokens) || !read_values(&ends) || !read_texts(&named)) return;
  std::vector<TokenNames::Name> names;
  for (size_t id = 0; id < named.size(); ++id) {
    if (!named[id].empty()) names.push_back({named[id], static_cast<int32_t>(id)});
  }
  const auto vocabulary = std::make_shared<Vocabulary>(
      std::vector<std::string_view>(tokens.begin(), tokens.end()), ends, tokens.size(), names);
  std::vector<std::string> request;
  for (std::vector<int32_t> ids; read_texts(&request) && read_values(&ids);) {
    const auto constraint = Constraint::compile(constraint_text(request), vocabulary);
    write_text(constraint.ok() ? "+" : constraint.message());
    if (!constraint.ok()) continue;
    Matcher matcher(**constraint);
    for (size_t i = 0;; ++i) {
      const TokenMask& mask = matcher.mask();
      write_text({reinterpret_cast<const char*>(mask.words().data()), 4 * mask.words().size()});
      if (i == ids.size()) break;
      const bool marked = vocabulary->names().is_marked(ids[i]);
      if (!matcher.accept(marked ? token_mark(ids[i]) : tokens[static_cast<size_t>(ids[i])])) break;
    }
  }
}

int run(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: constraint_cli MODE\n", stderr);
    return 2;
  }
  const std::string mode = argv[1];
  if (mode == "texts") check_texts(/*forced=*/false);
  if (mode == "forced") check_texts(/*forced=*/true);
  if (mode == "masks") write_masks();
  return 0;
}

}  // namespace
}  // namespace thimble

int main(int argc, char** argv) { return thimble::run(argc, argv); }
