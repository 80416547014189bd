#include "hear/ctc_writer.h"

#include <algorithm>
#include <utility>

#include "hear/compression_ratio.h"
#include "tokenizer/utf8.h"

namespace thimble {
namespace {

constexpr size_t kPauseFrames = 80;  // between words, at which a text is cut

}  // namespace

Result<std::unique_ptr<CtcWriter>> CtcWriter::load(TensorProgram& program,
                                                   const Tokenizer& tokenizer,
                                                   const TranscriptionSettings& settings) {
  const Result<const MethodSignature*> found = program.find("encoder");
  if (!found.ok()) return found.status();
  const std::vector<TensorSpec>&in = (*found)->inputs, &out = (*found)->outputs;
  const auto is_rows = [](const TensorSpec& spec) {
    return spec.sizes.size() == 3 && spec.type->name == "float32";
  };
  const bool fits = in.size() == 1 && out.size() == 1 && is_rows(in[0]) && is_rows(out[0]);
  if (!fits || settings.blank >= out[0].sizes[2].least || out[0].sizes[1].most < 1 ||
      out[0].sizes[1].most > in[0].sizes[1].most) {
    return Status::error(program.file().path() +
                         " has an encoder that does not tell tokens: export it again");
  }
  const Status status = program.load(**found);
  if (!status.ok()) return status;
  return std::unique_ptr<CtcWriter>(new CtcWriter(program, *found, tokenizer, settings.blank));
}

size_t CtcWriter::step_frames() const {
  const auto frames = static_cast<size_t>(input().sizes[1].most);
  const auto states = static_cast<size_t>(encoder_->outputs[0].sizes[1].most);
  return (frames + states - 1) / states;
}

Status CtcWriter::check(const TranscribeOptions& options, size_t) const {
  if (options.temperature == 0) return {};
  return Status::error("the model takes the likeliest tokens alone: leave the temperature out");
}

Status CtcWriter::begin(const TranscribeOptions& options) {
  if (stripped(options.prompt).empty()) return {};
  return Status::error("the model has no token for what precedes a sound: leave the prompt out");
}

Status CtcWriter::write(const std::vector<float>& numbers, size_t rows, std::string*,
                        std::vector<int32_t>* tokens, TextScores* scores) {
  const Shape shape{1, static_cast<int64_t>(rows), static_cast<int64_t>(numbers.size() / rows)};
  const Result<std::vector<Tensor>> outputs =
      program_.run(*encoder_, {{"", input().type, shape, numbers.data()}});
  if (!outputs.ok()) return outputs.status();
  const auto vocab_size = static_cast<size_t>(encoder_->outputs[0].sizes[2].least);
  const std::vector<uint8_t>& data = (*outputs)[0].data;
  const auto* logits = reinterpret_cast<const float*>(data.data());
  const size_t states = data.size() / sizeof(float) / vocab_size;
  tokens->clear();
  times_.clear();
  double sum = 0;
  int32_t before = blank_;
  for (size_t state = 0; state < states; ++state, logits += vocab_size) {
    const float* likeliest = std::max_element(logits, logits + vocab_size);
    const auto token = static_cast<int32_t>(likeliest - logits);
    sum += *likeliest - log_sum(logits, vocab_size);
    if (token != blank_ && token == before) {
      times_.back().end = state + 1;
    } else if (token != blank_) {
      tokens->push_back(token);
      times_.push_back({state, state + 1});
    }
    before = token;
  }
  scores->avg_logprob = sum / static_cast<double>(std::max<size_t>(1, states));
  scores->compression_ratio = compression_ratio(stripped(text_of(*tokens, 0, tokens->size())));
  return {};
}

std::vector<TimedPart> CtcWriter::parts(const std::vector<int32_t>& tokens, size_t steps,
                                        size_t* used) const {
  *used = steps;
  const size_t pause = kPauseFrames / step_frames();
  std::vector<TimedPart> parts;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const bool begins = tokenizer_.token_bytes(tokens[i]).substr(0, 1) == " ";
    if (parts.empty() || (begins && times_[i].begin >= times_[i - 1].end + pause)) {
      parts.push_back({i, i, std::min(times_[i].begin, steps), 0});
    }
    parts.back().last = i + 1;
    parts.back().end = std::min(times_[i].end, steps);
  }
  return parts;
}

std::vector<TokenTime> CtcWriter::token_times(size_t, size_t) const { return times_; }

std::string CtcWriter::text_of(const std::vector<int32_t>& tokens, size_t first,
                               size_t last) const {
  std::string text;
  for (size_t i = first; i < last; ++i) text += tokenizer_.token_bytes(tokens[i]);
  return with_valid_utf8(text);
}

}  // namespace thimble
