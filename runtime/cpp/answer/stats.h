#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace thimble {

/// Why an answer ended.
enum class StopReason {
  kNone,         ///< there is no answer yet
  kEos,          ///< the model ended it
  kComplete,     ///< nothing more fits its constraint
  kLength,       ///< as many tokens as asked for
  kContextFull,  ///< no room in the key/value cache
  kInterrupted,  ///< the caller stopped it
  kStop,         ///< one of its stop texts came
};

const char* stop_reason_name(StopReason reason);

/// What a run took. Times in seconds. Counts and times of phases add up over the turns of a chat;
/// ttft_s, stop_reason, end_token and incomplete are the last answer's.
struct Stats {
  std::string model;      ///< the file's path
  std::string method;     ///< of the file, that ran
  std::string delegate;   ///< ExecuTorch's name of it; several separated by commas
  std::string runs_with;  ///< the CPU delegate's kernels, threads, cache; else empty
  std::string adapter;    ///< that it ran with, by name; else empty
  int32_t threads = 0;
  double load_s = 0.0;            ///< from the path to a program that can run
  double ttft_s = 0.0;            ///< from the prompt's tokens to the answer's first token
  int64_t prompt_tokens = 0;      ///< prefilled: not those already in the cache
  int64_t cached_tokens = 0;      ///< of the prompts, those already in the cache
  int64_t recomputed_tokens = 0;  ///< of the cache, because their rotary table changed
  int64_t image_rows = 0;         ///< of pictures that were computed for the prompts
  int64_t generated_tokens = 0;   ///< the token that ends the answer included
  int64_t forced_tokens = 0;      ///< of those, the ones that the constraint left no choice for
  double prefill_s = 0.0;
  double decode_s = 0.0;        ///< spent on the tokens after the first
  int64_t decoded_tokens = 0;   ///< tokens that decode_s was spent on
  int64_t drafted_tokens = 0;   ///< guesses of what came before the answer's end
  int64_t accepted_tokens = 0;  ///< of those, the ones that it chose
  int64_t recorded_calls = 0;   ///< of the model, which a recording kept
  int64_t dropped_calls = 0;    ///< while recording, for which its bounds left no room
  StopReason stop_reason = StopReason::kNone;
  int32_t end_token = -1;   ///< that ended the answer, if the reason is kEos; else -1
  std::string end_text;     ///< its text
  bool incomplete = false;  ///< the answer ended before its constraint allowed it
  bool reasons = false;     ///< the answer ended within reasoning, which a chat leaves out
  /// What was left out of the schemas of its constraint, a sentence each.
  std::vector<std::string> left_out;

  double prefill_tokens_per_s() const;
  double decode_tokens_per_s() const;
};

/// The statistics as one JSON object and a newline, valid UTF-8 whatever the path is.
/// \param logprobs a JSON array that is one of its values; "": there is none.
std::string to_json(const Stats& stats, const std::string& logprobs = "");

/// The statistics as one line for people, without a newline.
std::string to_line(const Stats& stats);

}  // namespace thimble
