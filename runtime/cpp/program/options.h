#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "answer/answer_numbers.h"
#include "answer/generate_options.h"
#include "constraint/constraint.h"
#include "core/status.h"
#include "model/session_handle.h"

namespace thimble {

/// A file of a tensor, and the tensor's name; "": the next in order.
struct NamedFile {
  std::string name;
  std::string path;
};

/// The options of the command line.
struct Options {
  std::string model;
  std::optional<std::string> prompt;
  bool prompt_is_input = false;  ///< it was standard input
  GenerateOptions answer;        ///< all but seed and constraint
  NumberValues numbers;          ///< those of them that were given
  std::optional<uint64_t> seed;
  LoadOptions load;
  ConstraintText constraint;
  bool relax = false;              ///< what is not supported of its schemas is left out
  std::string adapter;             ///< "": none
  std::string draft;               ///< "ngram" or a smaller model's file; "": none
  std::vector<NamedFile> inputs;   ///< of a program of tensors
  std::vector<NamedFile> outputs;  ///< of it
  std::string method;              ///< of it; "": its default
  std::string session;
  std::string etdump;
  std::string json;
  std::string system;
  bool logprobs = false;  ///< write them with the statistics
  bool chat = false;
  bool embed = false;
  std::optional<std::string> prompt_name;  ///< of --embed
  std::vector<std::string> audio;          ///< files of sound; "-": standard input
  int32_t raw_rate = 0;                    ///< of standard input without a header; 0: it has one
  std::vector<std::string> images;         ///< files of pictures, before the prompt; "-" likewise
  std::string language;                    ///< of --audio; "": the model tells
  std::string task = "transcribe";         ///< of it, or "translate"
  std::string format = "text";             ///< of its output: "srt", "vtt" or "json" too
  bool timestamps = false;                 ///< with times
  bool words = false;                      ///< of each word too
  bool no_fallback = false;                ///< a text that fails is not written again
  bool quiet = false;                      ///< no statistics on standard error
  bool verify = false;
  bool help = false;
  bool version = false;

  /// Whether they are for a program of tensors.
  bool takes_tensors() const { return !inputs.empty() || !outputs.empty() || !method.empty(); }
};

/// Reads the command line. The error is one sentence with the value and what is allowed.
Result<Options> parse_options(int argc, const char* const* argv);

/// What --help prints.
std::string usage();

}  // namespace thimble
