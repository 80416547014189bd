/// How long constraints take at a tokenizer's vocabulary.
///
/// usage: constraint_bench TOKENIZER CONSTRAINT INSTANCES [REPEATS]
///
/// TOKENIZER: a compiled tokenizer (exporter.tokenizer.compile_tokenizer). CONSTRAINT: a file
/// with a JSON schema, or, if its name ends in .gbnf, with a grammar. INSTANCES: a file with one
/// JSON text a line, as answers of a model would be; of a grammar, each a JSON string that has the
/// answer, with special tokens by their names. Their tokens are taken one after another, and the
/// time of each mask is measured, with nothing kept from the instance before; with REPEATS, each
/// time is the least of so many runs. Prints one line of JSON: the milliseconds to sort the
/// vocabulary and to compile the constraint, the microseconds of the masks.

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "constraint/constraint.h"
#include "constraint/json.h"
#include "tokenizer/tokenizer.h"

namespace thimble {
namespace {

/// The time that this thread has had of a processor: other work on the machine does not count.
double now_s() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

std::string read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

int fail(const std::string& message) {
  std::fprintf(stderr, "constraint_bench: %s\n", message.c_str());
  return 1;
}

/// The time of each mask while a text's tokens are taken, the least of this and earlier runs; false
/// if the text does not match.
bool measure(Constraint& constraint, const Tokenizer& tokenizer, const std::string& text,
             std::vector<double>* least) {
  Matcher matcher(constraint);
  const std::vector<int32_t> ids = tokenizer.encode(text, /*parse_special=*/true);
  least->resize(ids.size() + 1, 1e9);
  for (size_t at = 0;; ++at) {
    const double start = now_s();
    const TokenMask& mask = matcher.mask();
    (*least)[at] = std::min((*least)[at], now_s() - start);
    if (at == ids.size()) return matcher.complete();
    const std::string bytes = constraint.names().is_marked(ids[at])
                                  ? token_mark(ids[at])
                                  : std::string(tokenizer.token_bytes(ids[at]));
    if (!mask[static_cast<size_t>(ids[at])] || !matcher.accept(bytes)) return false;
  }
}

int run(int argc, char** argv) {
  if (argc < 4) return fail("usage: constraint_bench TOKENIZER CONSTRAINT INSTANCES [REPEATS]");
  const std::string blob = read(argv[1]);
  const Result<Tokenizer> tokenizer =
      Tokenizer::load(reinterpret_cast<const uint8_t*>(blob.data()), blob.size());
  if (!tokenizer.ok()) return fail(tokenizer.message());
  const auto size = static_cast<size_t>(tokenizer->vocab_size());
  double start = now_s();
  const auto vocabulary = std::make_shared<Vocabulary>(*tokenizer, tokenizer->eos_ids(), size);
  const double sort_s = now_s() - start;

  const std::string_view path = argv[2], suffix = ".gbnf";
  const bool is_grammar =
      path.size() > suffix.size() && path.substr(path.size() - suffix.size()) == suffix;
  using Kind = ConstraintText::Kind;
  const ConstraintText text{is_grammar ? Kind::kGrammar : Kind::kJsonSchema, read(argv[2])};
  const int repeats = argc > 4 ? std::atoi(argv[4]) : 1;
  std::vector<double> compile_s, masks_s;
  double answer_s = 0;  // all masks of the answer that takes the longest
  size_t bytes = 0;
  std::ifstream instances(argv[3]);
  for (std::string line; std::getline(instances, line);) {
    if (is_grammar) {
      const Result<Json> instance = parse_json(line);
      if (!instance.ok()) return fail(instance.message());
      line = instance->text;
    }
    std::vector<double> least;
    for (int i = 0; i < repeats; ++i) {
      start = now_s();
      const auto constraint = Constraint::compile(text, vocabulary);
      if (!constraint.ok()) return fail(constraint.message());
      compile_s.push_back(now_s() - start);
      if (!measure(**constraint, *tokenizer, line, &least)) {
        return fail("the constraint does not allow " + line);
      }
      bytes = std::max(bytes, (*constraint)->recognizer().bytes());
    }
    answer_s = std::max(answer_s, std::accumulate(least.begin(), least.end(), 0.0));
    masks_s.insert(masks_s.end(), least.begin(), least.end());
  }
  std::sort(compile_s.begin(), compile_s.end());
  std::sort(masks_s.begin(), masks_s.end());
  const auto us = [&masks_s](double part) {
    return 1e6 * masks_s[static_cast<size_t>(part * static_cast<double>(masks_s.size() - 1))];
  };
  std::printf(
      "{\"tokens\": %zu, \"sort_ms\": %.1f, \"vocabulary_bytes\": %zu, \"compile_ms\": %.3f, "
      "\"masks\": %zu, \"median_us\": %.1f, \"p99_us\": %.1f, \"most_us\": %.1f, "
      "\"answer_ms\": %.1f, \"states_bytes\": %zu}\n",
      size, 1e3 * sort_s, vocabulary->bytes(), 1e3 * compile_s[compile_s.size() / 2],
      masks_s.size(), us(0.5), us(0.99), us(1.0), 1e3 * answer_s, bytes);
  return 0;
}

}  // namespace
}  // namespace thimble

int main(int argc, char** argv) { return thimble::run(argc, argv); }
