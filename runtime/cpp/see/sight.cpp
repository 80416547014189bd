#include "see/sight.h"

#include <executorch/extension/tensor/tensor.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <limits>

namespace thimble {
namespace {

using executorch::aten::ScalarType;
using executorch::extension::from_blob;
using executorch::runtime::EValue;

constexpr size_t kMostBytes = size_t{64} << 20;  // of pictures that are known
constexpr const char *kEncoder = "vision_encoder", *kEmbedding = "token_embedding",
                     *kDecoder = "text_decoder";

/// The numbers of the only output; null if it has another count of float32.
const float* numbers_of(const std::vector<EValue>& outputs, size_t count) {
  if (outputs.size() != 1 || !outputs[0].isTensor()) return nullptr;
  const auto& tensor = outputs[0].toTensor();
  const bool fits =
      tensor.scalar_type() == ScalarType::Float && static_cast<size_t>(tensor.numel()) == count;
  return fits ? tensor.const_data_ptr<float>() : nullptr;
}

Status failed(const char* method, const std::string& reason) {
  return Status::error("the method " + std::string(method) + " failed: " + reason);
}

Status misfit(const char* method, const std::string& path) {
  return Status::error("the output of the method " + std::string(method) + " of " + path +
                       " has another shape than its pictures: export it again");
}

}  // namespace

Result<std::shared_ptr<Sight>> Sight::load(OpenProgram& program) {
  const std::string& path = program.file().path();
  const std::string_view blob = program.named_data("thimble.picture");
  if (blob.empty()) {
    return Status::error(path + " does not see: leave the pictures out, or export a model that " +
                         "does, with --delegate cpu and without --no-vision");
  }
  Result<PictureSettings> settings =
      PictureSettings::load(reinterpret_cast<const uint8_t*>(blob.data()), blob.size());
  if (!settings.ok()) return Status::error("cannot load " + path + ": " + settings.message());
  return std::shared_ptr<Sight>(new Sight(program, std::move(*settings)));
}

Status Sight::load_methods() {
  for (const char* method : {kEncoder, kEmbedding, kDecoder}) {
    const Status status = program_.load(method);
    if (!status.ok()) return status;
  }
  const std::vector<int64_t> sizes = program_.constants("get_vocab_size");
  if (sizes.size() == 1) vocab_size_ = static_cast<size_t>(sizes[0]);
  const auto meta = program_.meta(kDecoder);
  if (meta && meta->num_inputs() == 2) {
    const auto rows = meta->input_tensor_meta(0);
    if (rows.ok() && rows->scalar_type() == ScalarType::Float && rows->sizes().size() == 3) {
      width_ = static_cast<size_t>(rows->sizes()[2]);
    }
  }
  if (width_ > 0) return {};
  return Status::error(program_.file().path() + " has no method " + kDecoder +
                       "(rows, input_pos) -> logits: export it again");
}

Result<std::vector<SeenPicture>> Sight::see(const std::vector<Picture>& pictures, size_t most_rows,
                                            const std::atomic<bool>* interrupted) {
  std::vector<Known> given;
  size_t count = 0;
  for (const Picture& picture : pictures) {
    Tiles tiles(picture, settings_);
    const SeenPicture seen{0, settings_.rows * tiles.count(), tiles.rows(), tiles.columns()};
    count += seen.count;
    given.push_back({std::move(tiles), seen, {}});
  }
  if (count > most_rows) {
    return Status::error("the pictures take " + std::to_string(count) +
                         " positions, but the model's context holds " + std::to_string(most_rows) +
                         ": pass fewer, or export with a larger --max-context-len");
  }
  const Status loaded = width_ == 0 ? load_methods() : Status();
  if (!loaded.ok()) return loaded;
  std::vector<SeenPicture> seen;
  for (Known& one : given) {
    const auto same = std::find_if(known_.begin(), known_.end(),
                                   [&one](const Known& known) { return known.tiles == one.tiles; });
    if (same != known_.end()) {
      one = std::move(*same);
      known_.erase(same);
    } else {
      const Result<bool> complete = compute(&one, interrupted);
      if (!complete.ok()) return complete.status();
      if (!*complete) break;
    }
    seen.push_back(one.seen);
    known_.push_back(std::move(one));
  }
  forget(given.size());
  return seen;
}

Result<bool> Sight::compute(Known* known, const std::atomic<bool>* interrupted) {
  const Tiles& tiles = known->tiles;
  if (next_ - static_cast<int64_t>(known->seen.count) < std::numeric_limits<int32_t>::min()) {
    return Status::error("the model has seen as many pictures as it can: load it again");
  }
  const auto side = static_cast<int32_t>(tiles.side());
  std::vector<float> pixels(3 * tiles.side() * tiles.side());
  const auto input = from_blob(pixels.data(), {1, 3, side, side}, ScalarType::Float);
  for (size_t tile = 0; tile < tiles.count(); ++tile) {
    if (interrupted != nullptr && *interrupted) return false;
    tiles.write(tile, pixels.data());
    const Recorder::Call call(program_.recorder(), "run", 1, kEncoder);
    const auto outputs = program_.execute(kEncoder, {EValue(*input)});
    if (!outputs.ok()) return failed(kEncoder, outputs.message());
    const size_t count = settings_.rows * width_;
    const float* numbers = numbers_of(*outputs, count);
    if (numbers == nullptr) return misfit(kEncoder, program_.file().path());
    known->numbers.insert(known->numbers.end(), numbers, numbers + count);
  }
  known->seen.first = static_cast<int32_t>(next_);
  next_ -= static_cast<int64_t>(known->seen.count);
  return true;
}

void Sight::forget(size_t kept) {
  size_t bytes = 0;
  for (const Known& known : known_) bytes += known.bytes();
  while (bytes > kMostBytes && known_.size() > kept) {
    bytes -= known_.front().bytes();
    known_.pop_front();
  }
}

const float* Sight::row(int64_t token) const {
  for (const Known& known : known_) {
    const int64_t index = known.seen.first - token;
    if (index < 0 || static_cast<size_t>(index) >= known.seen.count) continue;
    return &known.numbers[static_cast<size_t>(index) * width_];
  }
  return nullptr;
}

std::vector<int32_t> Sight::with_places(std::vector<int32_t> tokens) const {
  for (int32_t& token : tokens) {
    if (is_row(token) && row(token) != nullptr) token = settings_.token;
  }
  return tokens;
}

Status Sight::embed(const int64_t* tokens, size_t count, float* rows) {
  const auto input =
      from_blob(const_cast<int64_t*>(tokens), {1, static_cast<int32_t>(count)}, ScalarType::Long);
  const Recorder::Call call(program_.recorder(), "run", static_cast<int64_t>(count), kEmbedding);
  const auto outputs = program_.execute(kEmbedding, {EValue(*input)});
  if (!outputs.ok()) return failed(kEmbedding, outputs.message());
  const float* numbers = numbers_of(*outputs, count * width_);
  if (numbers == nullptr) return misfit(kEmbedding, program_.file().path());
  std::copy_n(numbers, count * width_, rows);
  return {};
}

Result<const float*> Sight::read(const std::vector<int64_t>& tokens, int64_t start_pos) {
  std::vector<float> rows(tokens.size() * width_);
  for (size_t at = 0; at < tokens.size();) {
    float* out = &rows[at * width_];
    if (is_row(tokens[at])) {
      const float* numbers = row(tokens[at]);
      if (numbers == nullptr) {
        return Status::error("a picture of the text is not known any more: pass it again");
      }
      std::copy_n(numbers, width_, out);
      ++at;
      continue;
    }
    const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(at);
    const auto count = static_cast<size_t>(std::find_if(begin, tokens.end(), is_row) - begin);
    const Status status = embed(&tokens[at], count, out);
    if (!status.ok()) return status;
    at += count;
  }
  const auto input =
      from_blob(rows.data(), {1, static_cast<int32_t>(tokens.size()), static_cast<int32_t>(width_)},
                ScalarType::Float);
  const auto position = from_blob(&start_pos, {1}, ScalarType::Long);
  const Recorder::Call call(program_.recorder(), "prefill", static_cast<int64_t>(tokens.size()),
                            kDecoder);
  const auto outputs = program_.execute(kDecoder, {EValue(*input), EValue(*position)});
  if (!outputs.ok()) return failed(kDecoder, outputs.message());
  const float* logits = numbers_of(*outputs, vocab_size_);
  if (logits == nullptr) return misfit(kDecoder, program_.file().path());
  return logits;
}

}  // namespace thimble
