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

}  // namespace

Result<std::unique_ptr<TextDecoder>> TextDecoder::load(TensorProgram& program,
                                                       const TranscriptionSettings& settings) {
  const Result<const MethodSignature*> encoder = program.find("encoder");
  if (!encoder.ok()) return encoder.status();
  const Result<const MethodSignature*> decoder = program.find("text_decoder");
  if (!decoder.ok()) return decoder.status();
  std::unique_ptr<TextDecoder> loaded(new TextDecoder(program, *encoder, *decoder));
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

TensorView TextDecoder::view(size_t input, const void* data) const {
  const TensorSpec& spec = decoder_->inputs[input];
  Shape shape;
  for (const SizeRange& size : spec.sizes) shape.push_back(size.least);
  return {"", spec.type, shape, data};
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
  std::fill(bias_.begin() + position_, bias_.end() - 1, -std::numeric_limits<float>::infinity());
  bias_.back() = 0;  // a token sees itself
}

Status TextDecoder::step(int32_t token, std::vector<float>* logits) {
  if (static_cast<size_t>(position_) >= max_tokens_) {
    return Status::error("the text has " + std::to_string(max_tokens_) +
                         " tokens, the most of a window");
  }
  const int64_t id = token;
  std::vector<TensorView> inputs{view(0, &id), view(1, &position_), view(2, bias_.data())};
  for (const std::vector<float>& cache : cached_) {
    inputs.push_back(view(inputs.size(), cache.data()));
  }
  for (const Tensor& cache : window_) inputs.push_back(cache.view());
  const Result<std::vector<Tensor>> outputs = program_.run(*decoder_, inputs);
  if (!outputs.ok()) return outputs.status();
  logits->resize(vocab_size());
  std::memcpy(logits->data(), (*outputs)[0].data.data(), (*outputs)[0].data.size());
  for (size_t i = 0; i < cached_.size(); ++i) {
    const std::vector<uint8_t>& row = (*outputs)[1 + i].data;
    std::memcpy(
        reinterpret_cast<uint8_t*>(cached_[i].data()) + static_cast<size_t>(position_) * row.size(),
        row.data(), row.size());
  }
  const size_t bytes = head_size_ * sizeof(float);
  for (size_t i = 0; i < aligned_.size(); ++i) {
    std::memcpy(&queries_[(size() * aligned_.size() + i) * head_size_],
                (*outputs)[asking_[i]].data.data() + aligned_[i].head * bytes, bytes);
  }
  bias_[static_cast<size_t>(position_++)] = 0;
  return {};
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
