#include "hear/text_decoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace thimble {
namespace {

// Inputs before the caches: a token, its position, and what is added to scores.
constexpr size_t kFirst = 3;
constexpr size_t kCaches = 4;  // of a layer: keys and values, of tokens and of the window
constexpr const char* kVerifier = "text_verifier";

// Data in the shape of an input, where its sizes are the least.
TensorView view(const TensorSpec& spec, const void* data) {
  Shape shape;
  for (const SizeRange& size : spec.sizes) shape.push_back(size.least);
  return {"", spec.type, shape, data};
}

}  // namespace

Result<std::unique_ptr<TextDecoder>> TextDecoder::load(TensorProgram& program,
                                                       const TranscriptionSettings& settings) {
  const Result<const MethodSignature*> encoder = program.find("encoder");
  if (!encoder.ok()) return encoder.status();
  const Result<const MethodSignature*> decoder = program.find("text_decoder");
  if (!decoder.ok()) return decoder.status();
  std::unique_ptr<TextDecoder> loaded(new TextDecoder(program, *encoder, *decoder));
  if ((*decoder)->inputs.size() == kFirst) {  // it keeps its caches itself
    return Status::error(program.file().path() +
                         " is for ExecuTorch's own Seq2SeqRunner: export it with --delegate cpu to "
                         "run it here");
  }
  if (!loaded->fits(settings)) {
    return Status::error(program.file().path() +
                         " has an encoder and a text_decoder that do not fit each other: export "
                         "it again");
  }
  for (const MethodSignature* method : {*encoder, *decoder}) {
    const Status status = program.load(*method);
    if (!status.ok()) return status;
  }
  const std::vector<SizeRange>& cache = (*decoder)->inputs[kFirst].sizes;
  loaded->max_tokens_ = static_cast<size_t>(cache[1].least);
  const auto width = static_cast<size_t>(cache[2].least);
  loaded->cached_.assign(2 * loaded->layers_, std::vector<float>(loaded->max_tokens_ * width));
  loaded->bias_.resize(loaded->max_tokens_ + 1);
  const Result<const MethodSignature*> verifier = program.find(kVerifier);
  if (verifier.ok() && loaded->verifies(**verifier)) {
    loaded->verifier_ = *verifier;
    const Status status = program.load(**verifier);
    if (!status.ok()) return status;
  }
  loaded->queries_.resize(loaded->max_tokens_ * loaded->aligned_.size() * loaded->head_size_);
  return loaded;
}

bool TextDecoder::fits(const TranscriptionSettings& settings) {
  const auto is = [](const TensorSpec& spec, size_t dims, std::string_view type) {
    return spec.sizes.size() == dims && spec.type->name == type;
  };
  const size_t layers = layers_ = encoder_->outputs.size() / 2;
  aligned_ = settings.alignment_heads;
  for (size_t i = 0; i < aligned_.size(); ++i) {
    if (aligned_[i].layer >= layers || aligned_[i].head >= settings.decoder_heads) return false;
    const bool same = i > 0 && aligned_[i].layer == aligned_[i - 1].layer;
    asking_.push_back(i == 0 ? 1 + 2 * layers : asking_.back() + (same ? 0 : 1));
  }
  const size_t outputs = aligned_.empty() ? 1 + 2 * layers : asking_.back() + 1;
  const std::vector<TensorSpec>&in = decoder_->inputs, &out = decoder_->outputs;
  const std::vector<TensorSpec>& sound = encoder_->inputs;
  const bool heard = (sound.size() == 1 || (sound.size() == 2 && is(sound[1], 3, "float32"))) &&
                     is(sound[0], 3, "float32");
  if (!heard || layers < 1 || in.size() != kFirst + kCaches * layers || out.size() != outputs ||
      !is(in[0], 2, "int64") || !is(in[1], 2, "int64") || !is(in[2], 4, "float32")) {
    return false;
  }
  for (size_t i = 0; i < in.size(); ++i) {
    if (i >= kFirst && !is(in[i], 3, "float32")) return false;
  }
  for (const TensorSpec& spec : out) {
    if (!is(spec, 3, "float32")) return false;
  }
  const std::vector<SizeRange>& cache = in[kFirst].sizes;
  for (size_t i = 0; i < 2 * layers; ++i) {
    if (in[kFirst + i].sizes[1].least != cache[1].least ||
        in[kFirst + i].sizes[2].least != cache[2].least ||
        out[1 + i].sizes[2].least != cache[2].least) {
      return false;
    }
  }
  if (!aligned_.empty()) {
    const auto width = static_cast<size_t>(cache[2].least);
    head_size_ = width / settings.decoder_heads;
    for (const size_t output : asking_) {
      if (out[output].sizes[2].least != cache[2].least) return false;
    }
    if (head_size_ * settings.decoder_heads != width) return false;
  }
  return in[2].sizes[3].least == cache[1].least + 1;
}

bool TextDecoder::verifies(const MethodSignature& method) const {
  const std::vector<TensorSpec>&in = method.inputs, &out = method.outputs;
  const std::vector<TensorSpec>&one_in = decoder_->inputs, &one_out = decoder_->outputs;
  if (in.size() != one_in.size() || out.size() != one_out.size() || !aligned_.empty()) return false;
  if (in[0].sizes.size() != 2 || in[2].sizes.size() != 4) return false;
  const int64_t tokens = in[0].sizes[1].least, most = one_in[kFirst].sizes[1].least;
  const auto is = [](const TensorSpec& spec, const TensorSpec& other, const Shape& sizes) {
    if (spec.type != other.type || spec.sizes.size() != sizes.size()) return false;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (spec.sizes[i].least != sizes[i]) return false;
    }
    return true;
  };
  if (!is(in[0], one_in[0], {1, tokens}) || !is(in[1], one_in[1], {1, tokens}) ||
      !is(in[2], one_in[2], {1, 1, tokens, most + tokens})) {
    return false;
  }
  for (size_t i = kFirst; i < in.size(); ++i) {
    if (!is(in[i], one_in[i], view(one_in[i], nullptr).shape)) return false;
  }
  for (size_t i = 0; i < out.size(); ++i) {
    if (!is(out[i], one_out[i], {1, tokens, one_out[i].sizes[2].least})) return false;
  }
  return true;
}

Status TextDecoder::use_positions(const uint8_t* positions, size_t count) {
  const bool takes = encoder_->inputs.size() == 2;
  if (takes == (count > 0)) {
    positions_ = positions;
    if (!takes) return {};
    const std::vector<SizeRange>& sizes = encoder_->inputs[1].sizes;
    if (static_cast<size_t>(sizes[1].most * sizes[2].least) == count) return {};
  }
  return Status::error("its positions do not fit its encoder: export it again");
}

Status TextDecoder::encode(const std::vector<float>& numbers, size_t rows, size_t first,
                           size_t kept) {
  const Shape shape{1, static_cast<int64_t>(rows), static_cast<int64_t>(numbers.size() / rows)};
  std::vector<TensorView> inputs{{"", input().type, shape, numbers.data()}};
  if (positions_ != nullptr) {
    const TensorSpec& spec = encoder_->inputs[1];
    const auto width = static_cast<size_t>(spec.sizes[2].least);
    inputs.push_back({"",
                      spec.type,
                      {1, shape[1], spec.sizes[2].least},
                      positions_ + first * width * sizeof(float)});
  }
  Result<std::vector<Tensor>> made = program_.run(*encoder_, inputs);
  if (!made.ok()) return made.status();
  truncate(0);
  if (first + kept == 0) {
    window_ = std::move(*made);
    return {};
  }
  for (size_t i = 0; i < window_.size(); ++i) {
    const std::vector<uint8_t>& from = (*made)[i].data;
    const size_t row = from.size() / rows;
    std::vector<uint8_t>& to = window_[i].data;
    to.resize((first + kept) * row);
    to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(kept * row), from.end());
    window_[i].shape[1] = static_cast<int64_t>(first + rows);
  }
  return {};
}

void TextDecoder::truncate(size_t count) {
  position_ = static_cast<int64_t>(count);
  ahead_ = 0;
  std::fill(bias_.begin() + position_, bias_.end() - 1, -std::numeric_limits<float>::infinity());
  bias_.back() = 0;  // a token sees itself
}

Status TextDecoder::step(int32_t token, std::vector<float>* logits) {
  if (static_cast<size_t>(position_) >= max_tokens_) {
    return Status::error("the text has " + std::to_string(max_tokens_) +
                         " tokens, the most of a window");
  }
  if (size() >= ahead_ && is_expected(token)) {
    const Status status = read_ahead();
    if (!status.ok()) return status;
  }
  if (size() < ahead_ && is_expected(token)) {
    const size_t row = vocab_size() * sizeof(float);
    logits->resize(vocab_size());
    std::memcpy(logits->data(), &ahead_logits_[(size() - ahead_from_) * row], row);
    bias_[static_cast<size_t>(position_++)] = 0;
    return {};
  }
  ahead_ = 0;  // what was read follows another token
  const int64_t id = token;
  const Result<std::vector<Tensor>> outputs = run(*decoder_, &id, &position_, bias_.data());
  if (!outputs.ok()) return outputs.status();
  logits->resize(vocab_size());
  std::memcpy(logits->data(), (*outputs)[0].data.data(), (*outputs)[0].data.size());
  keep(*outputs, 1);
  const size_t bytes = head_size_ * sizeof(float);
  for (size_t i = 0; i < aligned_.size(); ++i) {
    std::memcpy(&queries_[(size() * aligned_.size() + i) * head_size_],
                (*outputs)[asking_[i]].data.data() + aligned_[i].head * bytes, bytes);
  }
  bias_[static_cast<size_t>(position_++)] = 0;
  return {};
}

void TextDecoder::expect(std::vector<int32_t> tokens) {
  expected_ = std::move(tokens);
  expected_from_ = size();
  ahead_ = 0;
}

bool TextDecoder::is_expected(int32_t token) const {
  const size_t at = size() - expected_from_;  // great before it
  return at < expected_.size() && expected_[at] == token;
}

Status TextDecoder::read_ahead() {
  if (verifier_ == nullptr) return {};
  const auto all = static_cast<size_t>(verifier_->inputs[0].sizes[1].least);
  const size_t at = size() - expected_from_;
  const size_t count = std::min({all, expected_.size() - at, max_tokens_ - size()});
  if (count < 2) return {};
  std::vector<int64_t> tokens(all, 0), positions(all, position_);  // behind them, whatever
  std::vector<float> bias;
  for (size_t i = 0; i < all; ++i) {
    if (i < count) {
      tokens[i] = expected_[at + i];
      positions[i] += static_cast<int64_t>(i);
    }
    bias.insert(bias.end(), bias_.begin(), bias_.end() - 1);
    bias.resize(bias.size() + i + 1, 0);
    bias.resize((i + 1) * (max_tokens_ + all), -std::numeric_limits<float>::infinity());
  }
  Result<std::vector<Tensor>> outputs =
      run(*verifier_, tokens.data(), positions.data(), bias.data());
  if (!outputs.ok()) return outputs.status();
  keep(*outputs, count);
  ahead_logits_ = std::move((*outputs)[0].data);
  ahead_from_ = size();
  ahead_ = size() + count;
  return {};
}

Result<std::vector<Tensor>> TextDecoder::run(const MethodSignature& method, const int64_t* tokens,
                                             const int64_t* positions, const float* bias) {
  const std::vector<TensorSpec>& specs = method.inputs;
  std::vector<TensorView> inputs{view(specs[0], tokens), view(specs[1], positions),
                                 view(specs[2], bias)};
  for (const std::vector<float>& cache : cached_) {
    inputs.push_back(view(specs[inputs.size()], cache.data()));
  }
  for (const Tensor& cache : window_) inputs.push_back(cache.view());
  return program_.run(method, inputs);
}

void TextDecoder::keep(const std::vector<Tensor>& outputs, size_t count) {
  const size_t row = cached_[0].size() / max_tokens_ * sizeof(float);
  for (size_t i = 0; i < cached_.size(); ++i) {
    std::memcpy(reinterpret_cast<uint8_t*>(cached_[i].data()) + size() * row,
                outputs[1 + i].data.data(), count * row);
  }
}

Attention TextDecoder::attention(size_t first, size_t count, size_t steps) const {
  const std::vector<SizeRange>& window = decoder_->inputs[kFirst + 2 * layers_].sizes;
  const auto all = static_cast<size_t>(window[1].least),
             width = static_cast<size_t>(window[2].least);
  Attention attention{aligned_.size(), count, std::min(steps, all), {}};
  attention.weights.reserve(attention.heads * count * attention.steps);
  std::vector<float> row(all);
  for (size_t i = 0; i < aligned_.size(); ++i) {
    const auto* keys = reinterpret_cast<const float*>(window_[aligned_[i].layer].data.data()) +
                       aligned_[i].head * head_size_;
    for (size_t token = first; token < first + count; ++token) {
      const float* query = &queries_[(token * aligned_.size() + i) * head_size_];
      for (size_t step = 0; step < all; ++step) {
        float sum = 0;
        for (size_t k = 0; k < head_size_; ++k) sum += query[k] * keys[step * width + k];
        row[step] = sum / std::sqrt(static_cast<float>(head_size_));
      }
      const float most = *std::max_element(row.begin(), row.end());
      double sum = 0;
      for (float& weight : row) {
        weight = std::exp(weight - most);
        sum += weight;
      }
      for (size_t step = 0; step < attention.steps; ++step) {
        attention.weights.push_back(static_cast<float>(row[step] / sum));
      }
    }
  }
  return attention;
}

}  // namespace thimble
