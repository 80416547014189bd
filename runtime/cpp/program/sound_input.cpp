#include "program/sound_input.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "sound/wav.h"

namespace thimble {
namespace {

constexpr size_t kMostInput = size_t{1} << 30;  // bytes that are read as a whole
constexpr size_t kPiece = 1 << 12, kMostHeader = 1 << 16;
constexpr size_t kTag = 4;

}  // namespace

bool SoundInput::read_more(size_t size) {
  const size_t before = head_.size();
  head_.resize(before + size);
  const size_t count = std::fread(head_.data() + before, 1, size, stdin);
  head_.resize(before + count);
  return count == size;
}

Status SoundInput::begin(int32_t raw_rate) {
  if (raw_rate > 0) {
    form_ = Pcm{SampleType::kInt16, 1, raw_rate, 0, nullptr};
    return {};
  }
  bool more = true;
  while (!form_ && more && head_.size() < kMostHeader) {
    more = read_more(kPiece);
    if (head_.empty())
      return Status::error("standard input is empty: pipe a file of sound into it");
    if (head_.size() < kTag || std::memcmp(head_.data(), "RIFF", kTag) != 0) break;
    const Result<Wav> wav = read_wav(head_.data(), head_.size(), "standard input");
    if (!wav.ok()) continue;
    form_ = wav->pcm;
    at_ = static_cast<size_t>(wav->pcm.data - head_.data());
    left_ = wav->bytes;
  }
  return {};
}

std::vector<uint8_t> SoundInput::next() {
  const size_t frame = static_cast<size_t>(form_->channels) * size_of(form_->type);
  const auto frames = static_cast<size_t>(std::max(1, form_->rate / 10));
  const auto size = static_cast<size_t>(std::min<uint64_t>(left_, frames * frame));
  std::vector<uint8_t> bytes(head_.begin() + static_cast<std::ptrdiff_t>(at_), head_.end());
  at_ = head_.size();
  if (bytes.size() > size) {  // the header came with more than a piece
    at_ -= bytes.size() - size;
  }
  const size_t known = std::min(bytes.size(), size);
  bytes.resize(size);
  const size_t count = std::fread(bytes.data() + known, 1, size - known, stdin);
  bytes.resize((known + count) / frame * frame);
  left_ -= std::min<uint64_t>(left_, known + count);
  if (known + count < size) left_ = 0;
  return bytes;
}

Result<std::vector<uint8_t>> SoundInput::all() {
  while (read_more(kMostHeader)) {
    if (head_.size() > kMostInput) {
      return Status::error("standard input has more than 1 GiB of sound: name a file");
    }
  }
  if (!head_.empty()) return std::move(head_);
  return Status::error("standard input is empty: pipe a file of sound into it");
}

}  // namespace thimble
