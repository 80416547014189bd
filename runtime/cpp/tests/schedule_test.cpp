/// How a call is divided among answers and prompts.

#include "engine/schedule.h"

#include "cases.h"
#include "engine/prompt_share.h"

namespace thimble {
namespace {

using test::expect;

bool parts_are_in_the_delegates_order() {
  const std::vector<SequenceRows> parts = divide({1, 5, 3, 1}, 1, 7);
  const std::vector<std::vector<size_t>> wanted = {{2, 2, 0}, {1, 5, 1}, {3, 1, 1}, {0, 1, 1}};
  std::vector<std::vector<size_t>> found;
  for (const SequenceRows& part : parts) {
    found.push_back({part.sequence, part.rows, part.gets_logits ? size_t{1} : size_t{0}});
  }
  return expect(found == wanted, "a part of a prompt, a whole one, two answers");
}

/// Rows of a share after many calls, on a processor where a row of a prompt takes `row_s`.
size_t learned(PromptShare* share, double answers_s, double row_s) {
  for (int call = 0; call < 100; ++call) {
    const size_t rows = share->rows(answers_s);
    share->observe(rows, answers_s, answers_s + static_cast<double>(rows) * row_s);
  }
  return share->rows(answers_s);
}

bool prompts_take_as_long_as_answers() {
  PromptShare share(64);
  return expect(share.rows(0) == 64, "all rows where there are no answers") &
         expect(share.rows(0.006) == 4, "a few rows before one was measured") &
         expect(learned(&share, 0.006, 0.0019) == 3, "rows of half the call") &
         expect(learned(&share, 0.060, 0.0019) == 32, "more beside more answers") &
         expect(learned(&share, 0.006, 0.010) == 1, "a row at least") &
         expect(learned(&share, 0.006, 0.0) == 64, "rows that cost nothing, as many as may be");
}

bool a_call_that_was_held_up_says_little() {
  PromptShare share(64);
  const size_t before = learned(&share, 0.006, 0.0005);
  share.observe(before, 0.006, 10.0);
  return expect(share.rows(0.006) >= before * 3 / 4, "nearly as many rows after a slow call");
}

}  // namespace
}  // namespace thimble

int main(int argc, char** argv) {
  using namespace thimble;
  static const test::Case kCases[] = {
      {"parts_are_in_the_delegates_order", parts_are_in_the_delegates_order},
      {"prompts_take_as_long_as_answers", prompts_take_as_long_as_answers},
      {"a_call_that_was_held_up_says_little", a_call_that_was_held_up_says_little},
  };
  return test::run_cases(kCases, argc, argv);
}
