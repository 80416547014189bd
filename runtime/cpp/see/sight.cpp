#include "see/sight.h"

#include <executorch/extension/tensor/tensor.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <mutex>
#include <string>
#include <string_view>

#include "core/longer_context.h"

namespace thimble {
namespace {

using executorch::aten::ScalarType;
using executorch::extension::from_blob;
using executorch::runtime::EValue;
using executorch::runtime::TensorInfo;

// Of pictures that nothing holds; of all.
constexpr size_t kRecentBytes = size_t{64} << 20, kMostBytes = size_t{1} << 30;
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

/// Numbers of a row of a tensor (1, count, width) of float32; 0: it is another.
size_t row_width(const executorch::runtime::Result<TensorInfo>& rows) {
  if (!rows.ok() || rows->scalar_type() != ScalarType::Float || rows->sizes().size() != 3) return 0;
  return static_cast<size_t>(rows->sizes()[2]);
}

Status failed(const char* method, const std::string& reason) {
  return Status::error("the method " + std::string(method) + " failed: " + reason);
}

Status misfit(const char* method, const std::string& path) {
  return Status::error("the output of the method " + std::string(method) + " of " + path +
                       " has another shape than its pictures: export it again");
}

}  // namespace

size_t before_picture(const std::vector<int32_t>& tokens, size_t at) {
  while (at > 0 && at < tokens.size() && is_row(tokens[at]) && tokens[at] == tokens[at - 1] - 1) {
    --at;
  }
  return at;
}

Status check_whole(const std::vector<int32_t>& tokens, const Pictures& pictures) {
  int32_t next = 0;  // of the rows of a picture that has begun; 0: none has
  bool whole = true;
  for (const int32_t token : tokens) {
    if (!is_row(token)) continue;
    const SeenPicture& picture = **std::find_if(
        pictures.begin(), pictures.end(), [token](const auto& one) { return one->has(token); });
    whole = whole && token == (next == 0 ? picture.first : next);
    next = picture.has(token - 1) ? token - 1 : 0;
  }
  if (whole && next == 0) return {};
  return Status::error("the text has a part of a picture: give all its rows, in order");
}

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
  std::shared_ptr<Sight> sight(new Sight(program, std::move(*settings)));
  const Status status = sight->read_width();
  if (!status.ok()) return status;
  return sight;
}

Status Sight::read_width() {
  const auto decoder = program_.meta(kDecoder), embedding = program_.meta(kEmbedding);
  if (decoder && decoder->num_inputs() == 2) width_ = row_width(decoder->input_tensor_meta(0));
  if (embedding && embedding->num_outputs() == 1) {
    token_width_ = row_width(embedding->output_tensor_meta(0));
  }
  const auto encoder = program_.meta(kEncoder);
  if (encoder && encoder->num_outputs() == 1) {
    seen_width_ = row_width(encoder->output_tensor_meta(0));
  }
  const auto fits = [this](size_t width) { return width > 0 && width <= width_; };
  if (fits(token_width_) && fits(seen_width_)) return {};
  return Status::error(program_.file().path() + " has no methods " + kEncoder +
                       "(pixels) -> rows, " + kEmbedding + "(tokens) -> rows and " + kDecoder +
                       "(rows, input_pos) -> logits: export it again");
}

Status Sight::load_methods() {
  if (vocab_size_ > 0) return {};
  for (const char* method : {kEncoder, kEmbedding, kDecoder}) {
    const Status status = program_.load(method);
    if (!status.ok()) return status;
  }
  const std::vector<int64_t> sizes = program_.constants("get_vocab_size");
  if (sizes.size() != 1 || sizes[0] < 1) return misfit(kDecoder, program_.file().path());
  if (seen_width_ < width_) {
    const int64_t token = settings_.blank;
    if (token < 0 || token >= sizes[0]) return misfit(kEmbedding, program_.file().path());
    blank_.resize(width_);
    const Status status = embed(&token, 1, blank_.data());
    if (!status.ok()) return status;
  }
  vocab_size_ = static_cast<size_t>(sizes[0]);
  return {};
}

Status Sight::see(Tiles tiles, size_t most_rows, Pictures* text) {
  size_t rows = tiles.rows_of_all();
  for (const auto& before : *text) rows += before->count;
  if (rows > most_rows) {
    return Status::error("the pictures take at least " + std::to_string(rows) +
                         " positions, but the model's context holds " + std::to_string(most_rows) +
                         ": pass fewer or smaller ones, or " + export_longer());
  }
  const std::lock_guard<platform::Mutex> lock(mutex_);
  Result<std::shared_ptr<SeenPicture>> taken = take(std::move(tiles));
  if (!taken.ok()) return taken.status();
  if (forget() > kMostBytes) {
    return Status::error("the pictures of all texts take more than " +
                         std::to_string(kMostBytes >> 20) +
                         " MiB: ask again when others are answered, or pass fewer");
  }
  text->push_back(std::move(*taken));
  return {};
}

Result<std::shared_ptr<SeenPicture>> Sight::take(Tiles tiles) {
  for (const auto& [first, known] : seen_) {
    const std::shared_ptr<SeenPicture> picture = known.lock();
    if (picture == nullptr || !(picture->tiles == tiles)) continue;
    recent_.erase(std::remove(recent_.begin(), recent_.end(), picture), recent_.end());
    recent_.push_back(picture);
    return picture;
  }
  const size_t tile_count = tiles.count(), rows = tiles.rows_of_all();
  if (next_ - static_cast<int64_t>(rows) < std::numeric_limits<int32_t>::min()) {
    return Status::error("the model has seen as many pictures as it can: load it again");
  }
  const auto first = static_cast<int32_t>(next_);
  next_ -= static_cast<int64_t>(rows);
  recent_.push_back(std::make_shared<SeenPicture>(
      SeenPicture{std::move(tiles), first, rows, {}, std::vector<bool>(tile_count)}));
  seen_.emplace(first, recent_.back());
  return recent_.back();
}

size_t Sight::forget() {
  size_t bytes = 0;
  for (const auto& picture : recent_) bytes += this->bytes(*picture);
  while (!recent_.empty() && bytes > kRecentBytes) {
    bytes -= this->bytes(*recent_.front());
    recent_.pop_front();
  }
  bytes = 0;
  for (auto entry = seen_.begin(); entry != seen_.end();) {
    const std::shared_ptr<SeenPicture> picture = entry->second.lock();
    if (picture != nullptr) bytes += this->bytes(*picture);
    entry = picture == nullptr ? seen_.erase(entry) : std::next(entry);
  }
  return bytes;
}

std::shared_ptr<SeenPicture> Sight::find(int64_t row) const {
  const std::lock_guard<platform::Mutex> lock(mutex_);
  const auto entry = seen_.lower_bound(static_cast<int32_t>(row));
  std::shared_ptr<SeenPicture> picture = entry == seen_.end() ? nullptr : entry->second.lock();
  const bool is_its =
      picture != nullptr && picture->first - row < static_cast<int64_t>(picture->count);
  return is_its ? picture : nullptr;
}

Result<Pictures> Sight::hold(const std::vector<int32_t>& tokens) const {
  Pictures held;
  for (const int32_t token : tokens) {
    if (!is_row(token) || (!held.empty() && held.back()->has(token))) continue;
    std::shared_ptr<SeenPicture> picture = find(token);
    if (picture == nullptr) {
      return Status::error("a picture of the text is not known any more: pass it again");
    }
    held.push_back(std::move(picture));
  }
  return held;
}

Status Sight::compute(const std::vector<int64_t>& tokens, const std::atomic<bool>* interrupted,
                      int64_t* rows) {
  for (const int64_t token : tokens) {
    if (!is_row(token)) continue;
    const std::shared_ptr<SeenPicture> picture = find(token);
    if (picture == nullptr) {
      return Status::error("a picture of the text is not known any more: pass it again");
    }
    const size_t tile = picture->tiles.tile_of(static_cast<size_t>(picture->first - token));
    if (picture->computed[tile]) continue;
    if (interrupted != nullptr && *interrupted) return {};
    const Status status = compute_tile(picture.get(), tile);
    if (!status.ok()) return status;
    *rows += static_cast<int64_t>(picture->tiles.rows_of(tile));
  }
  return {};
}

Status Sight::compute_tile(SeenPicture* picture, size_t tile) {
  const Status loaded = load_methods();
  if (!loaded.ok()) return loaded;
  const Tiles& tiles = picture->tiles;
  std::vector<float> read = tiles.numbers(tile);
  const auto input = from_blob(read.data(), tiles.shape(tile), ScalarType::Float);
  const Recorder::Call call(program_.recorder(), "run", 1, kEncoder);
  const auto outputs = program_.execute(kEncoder, {EValue(*input)});
  if (!outputs.ok()) return failed(kEncoder, outputs.message());
  const size_t count = tiles.rows_of(tile) * seen_width_;
  const float* numbers = numbers_of(*outputs, count);
  if (numbers == nullptr) return misfit(kEncoder, program_.file().path());
  picture->numbers.resize(picture->count * seen_width_);
  std::copy_n(numbers, count, &picture->numbers[tiles.first_row(tile) * seen_width_]);
  picture->computed[tile] = true;
  return {};
}

size_t Sight::step(const std::vector<int32_t>& tokens, size_t start, size_t count) const {
  if (!settings_.both_ways) return count;
  const size_t before = before_picture(tokens, start + count);
  return (before > start ? before : picture_end(tokens, start)) - start;
}

std::vector<int32_t> Sight::with_places(std::vector<int32_t> tokens) const {
  std::replace_if(tokens.begin(), tokens.end(), is_row, settings_.token);
  return tokens;
}

Status Sight::embed(const int64_t* tokens, size_t count, float* rows) {
  const auto input =
      from_blob(const_cast<int64_t*>(tokens), {1, static_cast<int32_t>(count)}, ScalarType::Long);
  const Recorder::Call call(program_.recorder(), "run", static_cast<int64_t>(count), kEmbedding);
  const auto outputs = program_.execute(kEmbedding, {EValue(*input)});
  if (!outputs.ok()) return failed(kEmbedding, outputs.message());
  const float* numbers = numbers_of(*outputs, count * token_width_);
  if (numbers == nullptr) return misfit(kEmbedding, program_.file().path());
  for (size_t i = 0; i < count; ++i) {
    float* row = std::copy_n(numbers + i * token_width_, token_width_, rows + i * width_);
    std::fill_n(row, width_ - token_width_, 0.0F);
  }
  return {};
}

Result<const float*> Sight::read(const std::vector<int64_t>& tokens, int64_t start_pos,
                                 const std::vector<thimble_segment>& segments) {
  const Status loaded = load_methods();
  if (!loaded.ok()) return loaded;
  std::vector<float> rows(tokens.size() * width_);
  for (size_t at = 0; at < tokens.size();) {
    float* out = &rows[at * width_];
    if (is_row(tokens[at])) {
      const std::shared_ptr<SeenPicture> picture = find(tokens[at]);
      const size_t row = picture == nullptr ? 0 : static_cast<size_t>(picture->first - tokens[at]);
      if (picture == nullptr || !picture->computed[picture->tiles.tile_of(row)]) {
        return Status::error("a row of a picture is not computed: pass the picture again");
      }
      out = std::copy_n(&picture->numbers[row * seen_width_], seen_width_, out);
      std::copy(blank_.end() - static_cast<std::ptrdiff_t>(width_ - seen_width_), blank_.end(),
                out);
      ++at;
      continue;
    }
    const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(at);
    const auto count = static_cast<size_t>(std::find_if(begin, tokens.end(), is_row) - begin);
    const Status status = embed(&tokens[at], count, out);
    if (!status.ok()) return status;
    at += count;
  }
  size_t logit_rows = segments.empty() ? 1 : 0;
  for (const thimble_segment& segment : segments) {
    logit_rows += static_cast<size_t>(segment.logit_rows);
  }
  if (!segments.empty()) {
    logits_.resize(std::max(logits_.size(), logit_rows * vocab_size_));
    const Status status = program_.session()->ask_for(segments, &logits_);
    if (!status.ok()) return status;
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
  return segments.empty() ? logits : logits_.data();
}

}  // namespace thimble
