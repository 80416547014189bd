// Rows of several sequences in one call: each gets the bits that it gets alone.

#include <cstring>

#include "delegate/program/call_check.h"
#include "kernels/select/cpu_features.h"
#include "kernels/select/select.h"
#include "kernels/select/variants.h"
#include "tests/delegate/general_model.h"
#include "tests/delegate/hybrid_model.h"
#include "tests/delegate/model.h"
#include "tests/delegate/suite.h"

namespace thimble::segments_test {
namespace {

using test::equal_bits;
using test::expect;
using test::LoadedModel;
using test::RandomModel;

char error[300];

const kernels::Variant& best() {
  return *kernels::select_variant(nullptr, kernels::cpu_features()).variant;
}

/// A sequence's part of a call.
struct Part {
  size_t before;  ///< positions that are in its cache
  size_t rows;
  size_t last_rows;
};
using Parts = std::vector<Part>;

/// In a single tile and several, with few rows and many, across the borders of chunks.
const std::vector<Parts> kCalls = {
    {{0, 40, 0}, {7, 30, 1}, {50, 1, 1}, {0, 1, 1}, {33, 4, 4}},
    {{3, 250, 0}, {60, 20, 13}, {0, 30, 30}, {300, 2, 2}},
    {{5, 1, 1},
     {0, 1, 1},
     {16, 1, 1},
     {17, 1, 1},
     {100, 1, 1},
     {90, 1, 1},
     {1, 1, 1},
     {400, 1, 1},
     {31, 1, 1}},
    {{10, 8, 8}},
    {{64, 300, 0}, {20, 3, 0}},
};

std::vector<int64_t> tokens_of(size_t sequence, size_t first, size_t last) {
  test::Numbers numbers(static_cast<uint32_t>(sequence + 20));
  std::vector<int64_t> tokens(last);
  for (int64_t& token : tokens) {
    token = numbers.between(0, static_cast<int32_t>(RandomModel::kVocabulary) - 1);
  }
  return {tokens.begin() + static_cast<std::ptrdiff_t>(first), tokens.end()};
}

/// A model with a cache for each sequence, with what comes before its part of a call.
class Sequences {
 public:
  Sequences(LoadedModel* model, const Parts& parts) : model_(*model) {
    for (size_t i = 0; i < parts.size(); ++i) {
      int32_t cache = 0;  // a copy of cache 0, which stays empty
      if (thimble_cache_fork(model_.session(), &cache, error, sizeof(error)) != 0) std::abort();
      caches_.push_back(cache);
    }
    for (size_t i = 0; i < parts.size(); ++i) append(i, 0, parts[i].before);
  }

  /// The logits after some tokens of a sequence, in a call of their own.
  std::vector<float> append(size_t sequence, size_t first, size_t count) {
    if (count == 0) return {};
    return model_.run(tokens_of(sequence, first, first + count), static_cast<int64_t>(first),
                      caches_[sequence]);
  }
  /// The logits of the rows that get them, row by row.
  std::vector<float> append_alone(size_t sequence, const Part& part) {
    std::vector<float> all;
    const size_t first = part.before, without = part.rows - part.last_rows;
    append(sequence, first, without);
    for (size_t row = without; row < part.rows; ++row) {
      const std::vector<float> logits = append(sequence, first + row, 1);
      all.insert(all.end(), logits.begin(), logits.end());
    }
    return all;
  }
  /// The same of all sequences, in one call.
  std::vector<float> append_together(const Parts& parts) {
    std::vector<cpu::Segment> segments;
    std::vector<int64_t> tokens;
    size_t last_rows = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto [before, rows, last] = parts[i];
      segments.push_back({caches_[i], static_cast<int64_t>(before), rows, last});
      const std::vector<int64_t> own = tokens_of(i, before, before + rows);
      tokens.insert(tokens.end(), own.begin(), own.end());
      last_rows += last;
    }
    std::vector<float> logits(last_rows * RandomModel::kVocabulary, -1);
    const std::vector<float> output =
        model_.run(segments, tokens, last_rows > 0 ? logits.data() : nullptr);
    if (!model_.error().empty()) std::fprintf(stderr, "%s\n", model_.error().c_str());
    const bool is_last =
        last_rows == 0 || std::equal(output.begin(), output.end(),
                                     logits.end() - static_cast<std::ptrdiff_t>(output.size()));
    return expect(is_last, "the last row as the output") ? logits : std::vector<float>();
  }

 private:
  LoadedModel& model_;
  std::vector<int32_t> caches_;
};

bool check_call(LoadedModel* model, const Parts& parts) {
  Sequences alone(model, parts), together(model, parts);
  std::vector<float> expected;
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::vector<float> own = alone.append_alone(i, parts[i]);
    expected.insert(expected.end(), own.begin(), own.end());
  }
  if (!expect(equal_bits(together.append_together(parts), expected), "the bits of calls alone")) {
    return false;
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    const size_t end = parts[i].before + parts[i].rows;
    for (size_t step = 0; step < 2; ++step) {
      if (!expect(equal_bits(together.append(i, end + step, 1), alone.append(i, end + step, 1)),
                  "the same caches afterwards")) {
        return false;
      }
    }
  }
  return true;
}

/// All calls on every instruction set with the given numbers of threads.
bool check_model(const test::ProgramBuilder& model, const std::vector<int32_t>& threads) {
  for (const kernels::Variant* variant : kernels::all_variants()) {
    if ((variant->required & ~kernels::cpu_features()) != 0) continue;
    for (const int32_t count : threads) {
      for (const Parts& parts : kCalls) {
        if (!test::is_chosen()) continue;
        LoadedModel loaded(model, *variant, count);
        if (!check_call(&loaded, parts)) {
          std::fprintf(stderr, "kernels %s, %d threads, call %zu\n", variant->name,
                       static_cast<int>(count), static_cast<size_t>(&parts - kCalls.data()));
          return false;
        }
      }
    }
  }
  return true;
}

bool attention_alone() { return check_model(RandomModel(), {2, 5}); }

bool windows_in_rings() {
  test::GeneralModel model(test::GeneralModel::Form::kFused);
  model.program.caches[0].rows = 128;
  return check_model(model, {2});
}

bool one_op_for_each_step() {
  return check_model(test::GeneralModel(test::GeneralModel::Form::kPlain), {2});
}

bool states() { return check_model(test::HybridModel(), {2}); }

/// What a backend does with a call whose inputs are so many rows at a position.
std::string call_with(LoadedModel* loaded, size_t rows, int64_t start_pos, cpu::Call* call) {
  const auto session = cpu::find_session(loaded->session());
  call->segments = {{0, start_pos, rows}};
  call->rows = rows;
  const std::string wrong =
      cpu::choose_segments(loaded->executor().program(), *session, session->take_asked(), call)
          .message();
  return wrong.empty() ? loaded->executor().check(*call).message() : wrong;
}

bool asks_for_the_next_call() {
  const RandomModel model;
  LoadedModel loaded(model, best(), 2);
  const int32_t session = loaded.session();
  std::vector<float> logits(6 * RandomModel::kVocabulary);
  loaded.run(test::random_tokens(20), 0);
  int32_t fork = 0;
  if (thimble_cache_fork(session, &fork, error, sizeof(error)) != 0) return false;
  const int64_t positions[] = {20, 21, 22, 23, 24};
  const thimble_segment both[] = {{fork, 20, 5, 0, positions, 0, nullptr},
                                  {0, 20, 6, 6, nullptr, 0, nullptr}};
  const auto ask = [&](size_t count) {
    return thimble_session_segments(session, both, count, logits.data(), logits.size(), error,
                                    sizeof(error));
  };
  cpu::Call call;
  return expect(ask(2) == 0, "two segments") &&
         expect(call_with(&loaded, 11, 20, &call).empty(), "a call of them") &&
         expect(call.segments.size() == 2 && call.segments[0].cache == fork &&
                    call.segments[0].last_rows == 0 && call.segments[1].last_rows == 6 &&
                    call.logits == logits.data(),
                "what was asked for") &&
         expect(call_with(&loaded, 5, 20, &call).empty() && call.segments.size() == 1 &&
                    call.segments[0].cache == 0 && call.logits == nullptr,
                "the current cache in the call after it") &&
         expect(ask(2) == 0 && ask(0) == 0, "none") &&
         expect(call_with(&loaded, 3, 2, &call).empty() && call.segments.size() == 1,
                "the current cache where nothing is asked for");
}

/// Rows at other positions than those in the cache: as in a text that has them there, where they
/// see none before them; and pairs of a head that each have their own.
bool rotates_by_positions() {
  using Positions = std::vector<uint32_t>;
  for (const auto form : {test::GeneralModel::Form::kFused, test::GeneralModel::Form::kPlain}) {
    const test::GeneralModel model(form);
    LoadedModel loaded(model, best(), 2);
    std::vector<std::vector<float>> answers;
    const auto answer = [&](Positions first, Positions then, size_t pairs) {
      int32_t cache = 0;
      if (thimble_cache_fork(loaded.session(), &cache, error, sizeof(error)) != 0) std::abort();
      loaded.run({{cache, 0, 20, 1, std::move(first), pairs}}, tokens_of(1, 0, 20), nullptr);
      answers.push_back(
          loaded.run({{cache, 20, 2, 1, std::move(then), pairs}}, tokens_of(1, 20, 22), nullptr));
      if (!loaded.error().empty()) std::fprintf(stderr, "%s\n", loaded.error().c_str());
    };
    Positions own(20), half(20), each(20 * 3), other(20 * 3);
    for (uint32_t row = 0; row < 20; ++row) {
      own[row] = row;
      half[row] = row / 2;
      for (uint32_t pair = 0; pair < 3; ++pair) {
        each[row * 3 + pair] = row / 2;
        other[row * 3 + pair] = pair == 1 ? row / 3 : row / 2;
      }
    }
    answer({}, {}, 1);
    answer(own, {20, 21}, 1);
    answer(half, {10, 11}, 1);
    answer(each, {10, 10, 10, 11, 11, 11}, 3);
    answer(other, {10, 10, 10, 11, 11, 11}, 3);
    if (!expect(equal_bits(answers[0], answers[1]), "their own positions") ||
        !expect(!equal_bits(answers[0], answers[2]), "others") ||
        !expect(equal_bits(answers[2], answers[3]), "the same of each pair") ||
        !expect(!equal_bits(answers[3], answers[4]), "of each pair another")) {
      return false;
    }
  }
  return true;
}

/// The ends of rows from `start` on, of which those from `first` to before `last` attend to each
/// other.
std::vector<uint32_t> ends_of(size_t start, size_t rows, size_t first, size_t last) {
  std::vector<uint32_t> ends;
  for (size_t at = start; at < start + rows; ++at) {
    ends.push_back(static_cast<uint32_t>(at >= first && at < last ? last : at + 1));
  }
  return ends;
}

/// Rows that attend to each other: in calls of their own, beside others in a call of several
/// chunks, and more than a chunk has.
bool rows_that_attend_to_each_other() {
  constexpr size_t kRows = 340;
  for (const auto form : {test::GeneralModel::Form::kFused, test::GeneralModel::Form::kPlain}) {
    const test::GeneralModel model(form);
    for (const auto& [first, last] : {std::pair<size_t, size_t>{210, 290}, {250, 258}, {9, 320}}) {
      if (!test::is_chosen()) continue;
      LoadedModel loaded(model, best(), 2);
      std::vector<std::vector<float>> answers;
      const auto answer = [&](const std::vector<size_t>& borders, bool ahead) {
        int32_t cache = 0;
        if (thimble_cache_fork(loaded.session(), &cache, error, sizeof(error)) != 0) std::abort();
        std::vector<float> logits;
        for (size_t i = 0; i + 1 < borders.size(); ++i) {
          const size_t start = borders[i], rows = borders[i + 1] - start;
          std::vector<uint32_t> ends;
          if (ahead) ends = ends_of(start, rows, first, last);
          logits = loaded.run({{cache, static_cast<int64_t>(start), rows, 1, {}, 1, ends}},
                              tokens_of(1, start, start + rows), nullptr);
        }
        if (!loaded.error().empty()) std::fprintf(stderr, "%s\n", loaded.error().c_str());
        answers.push_back(logits);
      };
      answer({0, kRows}, true);
      answer({0, first, last, kRows}, true);
      answer({0, first - 3, last + 2, kRows}, true);
      answer({0, kRows}, false);
      if (!expect(equal_bits(answers[0], answers[1]), "in a call of their own") ||
          !expect(equal_bits(answers[0], answers[2]), "beside some others") ||
          !expect(!equal_bits(answers[0], answers[3]), "others than those that do not")) {
        return false;
      }
    }
  }
  return true;
}

bool refuses_wrong_segments() {
  const RandomModel model;
  LoadedModel loaded(model, best(), 1);
  const int32_t session = loaded.session();
  int32_t fork = 0;
  if (thimble_cache_fork(session, &fork, error, sizeof(error)) != 0) return false;
  std::vector<float> logits(RandomModel::kVocabulary);
  const int64_t positions[] = {20, 22};
  const auto said = [&](const std::vector<thimble_segment>& segments, const char* sentence,
                        float* memory) {
    const int result = thimble_session_segments(session, segments.data(), segments.size(), memory,
                                                logits.size(), error, sizeof(error));
    const bool right = result != 0 && std::strstr(error, sentence) != nullptr;
    if (!right) std::fprintf(stderr, "%d: %s\n", result, error);
    return expect(right, sentence);
  };
  if (!said({{0, 0, 1, 0, nullptr, 0, nullptr}, {0, 1, 1, 0, nullptr, 0, nullptr}},
            "two segments use cache 0", nullptr) ||
      !said({{0, 20, 2, 0, positions, 0, nullptr}},
            "row 1 of the segment requests position 22 but is at 21 of its cache", nullptr) ||
      !said({{0, 20, 1, 0, positions, 2, nullptr}}, "row 0 of the segment requests position 22",
            nullptr) ||
      !said({{0, 20, 1, 0, positions, -1, nullptr}}, "positions of -1 pairs", nullptr) ||
      !said({{7, 0, 2, 0, nullptr, 0, nullptr}}, "there is no cache 7", nullptr) ||
      !said({{0, 0, 0, 0, nullptr, 0, nullptr}}, "a segment of 0 rows", nullptr) ||
      !said({{0, -1, 2, 0, nullptr, 0, nullptr}}, "from position -1 on", nullptr) ||
      !said({{0, 0, 2, 3, nullptr, 0, nullptr}}, "with logits of 3", nullptr) ||
      !said({{0, 0, 2, 1, nullptr, 0, nullptr}, {fork, 0, 2, 1, nullptr, 0, nullptr}},
            "do not follow one another", logits.data()) ||
      !said({{0, 0, 2, 2, nullptr, 0, nullptr}}, "logits of 2 rows were requested", nullptr) ||
      !said({{0, 0, 65, 65, nullptr, 0, nullptr}}, "request at most 64", logits.data())) {
    return false;
  }
  for (const std::vector<int64_t>& ends :
       std::vector<std::vector<int64_t>>{{20, 22}, {21, 23}, {22, 21}, {-1, 22}}) {
    if (!said({{0, 20, 2, 0, nullptr, 0, ends.data()}},
              "of the segment attends to positions before", nullptr)) {
      return false;
    }
  }
  const auto refused = [&](LoadedModel* model, const thimble_segment& segment,
                           const char* sentence) {
    cpu::Call call;
    if (thimble_session_segments(model->session(), &segment, 1, logits.data(), logits.size(), error,
                                 sizeof(error)) != 0) {
      return expect(false, error);
    }
    const std::string message = call_with(model, 5, 0, &call);
    if (message.find(sentence) != std::string::npos) return true;
    std::fprintf(stderr, "%s\n", message.c_str());
    return expect(false, sentence);
  };
  const RandomModel all_rows(true);
  LoadedModel hands_out_all(all_rows, best(), 1);
  return refused(
             &loaded, {0, 0, 4, 0, nullptr, 0, nullptr},
             "the segments have 4 rows from position 0 on, and the call's inputs have 5 from") &&
         refused(&loaded, {0, 1, 5, 0, nullptr, 0, nullptr},
                 "the segments have 5 rows from position 1 on") &&
         refused(&loaded, {0, 0, 5, 2, nullptr, 0, nullptr},
                 "the memory for logits has 100 numbers, and 2 rows of 100 were requested") &&
         refused(&hands_out_all, {0, 0, 5, 1, nullptr, 0, nullptr}, "memory for logits was given");
}

const test::Suite suite("segments",
                        {{"attention_alone", attention_alone},
                         {"windows_in_rings", windows_in_rings},
                         {"one_op_for_each_step", one_op_for_each_step},
                         {"states", states},
                         {"asks_for_the_next_call", asks_for_the_next_call},
                         {"rotates_by_positions", rotates_by_positions},
                         {"rows_that_attend_to_each_other", rows_that_attend_to_each_other},
                         {"refuses_wrong_segments", refuses_wrong_segments}});

}  // namespace
}  // namespace thimble::segments_test
