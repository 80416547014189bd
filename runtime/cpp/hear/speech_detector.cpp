#include "hear/speech_detector.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace thimble {
namespace {

constexpr const char* kMethod = "speech_detector";
constexpr int32_t kRate = 16000;
constexpr uint64_t kStep = 512, kContext = 64;  // samples of a row: its own, and those before it
// The limits of silero-vad: probabilities at which speech begins and may end, and how long speech
// and pauses last at least.
constexpr float kBegins = 0.5f, kEnds = 0.35f;
constexpr uint64_t kLeastSpeech = kRate / 4, kLeastPause = kRate / 10;
constexpr uint64_t kAround = kRate * 2 / 5;  // of a pause, kept with speech: faster-whisper's

void copy_to(const Tensor& tensor, std::vector<float>* numbers) {
  std::memcpy(numbers->data(), tensor.data.data(), numbers->size() * sizeof(float));
}

}  // namespace

Result<std::unique_ptr<SpeechDetector>> SpeechDetector::load(TensorProgram& program, int32_t rate) {
  const auto& methods = program.methods();
  const auto found = std::find_if(methods.begin(), methods.end(),
                                  [](const MethodSignature& one) { return one.name == kMethod; });
  if (found == methods.end()) return std::unique_ptr<SpeechDetector>();
  std::unique_ptr<SpeechDetector> detector(new SpeechDetector(program, &*found));
  if (rate != kRate || !detector->fits()) {
    return Status::error("its detector of speech does not fit its sound: export it again");
  }
  const Status status = program.load(*found);
  if (!status.ok()) return status;
  detector->rows_.resize(detector->rows() * (kContext + kStep));
  for (const size_t input : {1, 2}) {
    auto& state = input == 1 ? detector->hidden_ : detector->memory_;
    state.resize(static_cast<size_t>(found->inputs[input].sizes[2].least));
  }
  return detector;
}

bool SpeechDetector::fits() const {
  const auto is = [](const TensorSpec& spec, int64_t rows, int64_t width) {
    return spec.type->name == "float32" && spec.sizes.size() == 3 && spec.sizes[0].least == 1 &&
           spec.sizes[1].least == rows && spec.sizes[2].least == width;
  };
  const std::vector<TensorSpec>&in = method_->inputs, &out = method_->outputs;
  if (in.size() != 3 || out.size() != 3 || in[0].sizes.size() != 3 || in[1].sizes.size() != 3) {
    return false;
  }
  const int64_t rows = in[0].sizes[1].least, width = in[1].sizes[2].least;
  return rows > 0 && width > 0 && is(in[0], rows, kContext + kStep) && is(in[1], 1, width) &&
         is(in[2], 1, width) && is(out[0], rows, 1) && is(out[1], 1, width) && is(out[2], 1, width);
}

void SpeechDetector::begin(const ResampledSound& sound) {
  sound_ = &sound;
  heard_ = 0;
  for (auto* state : {&hidden_, &memory_}) std::fill(state->begin(), state->end(), 0.0f);
  spoken_.clear();
  speaking_ = false;
  quiet_ = UINT64_MAX;
}

Status SpeechDetector::hear() {
  for (size_t row = 0; row < rows(); ++row) {
    const auto first = static_cast<int64_t>(heard_ + row * kStep) - static_cast<int64_t>(kContext);
    sound_->read(first, kContext + kStep, &rows_[row * (kContext + kStep)]);
  }
  const std::vector<TensorSpec>& in = method_->inputs;
  const auto width = static_cast<int64_t>(hidden_.size());
  const Shape sound{1, static_cast<int64_t>(rows()), kContext + kStep}, state{1, 1, width};
  const Result<std::vector<Tensor>> outputs =
      program_.run(*method_, {{"", in[0].type, sound, rows_.data()},
                              {"", in[1].type, state, hidden_.data()},
                              {"", in[2].type, state, memory_.data()}});
  if (!outputs.ok()) return outputs.status();
  copy_to((*outputs)[1], &hidden_);
  copy_to((*outputs)[2], &memory_);
  std::vector<float> speech(rows());
  copy_to((*outputs)[0], &speech);
  for (size_t row = 0; row < rows() && !has_ended(); ++row) add(speech[row]);
  if (has_ended() && speaking_) end_speech(sound_->size());
  return {};
}

void SpeechDetector::add(float probability) {
  if (probability >= kBegins) {
    quiet_ = UINT64_MAX;
    if (!speaking_) since_ = heard_;
    speaking_ = true;
  } else if (probability < kEnds && speaking_) {
    quiet_ = std::min(quiet_, heard_);
    if (heard_ - quiet_ >= kLeastPause) end_speech(quiet_);
  }
  heard_ += kStep;
}

void SpeechDetector::end_speech(uint64_t end) {
  if (end - since_ > kLeastSpeech) spoken_.push_back({since_, end});
  speaking_ = false;
  quiet_ = UINT64_MAX;
}

std::vector<SoundPart> SpeechDetector::known() const {
  std::vector<SoundPart> parts = spoken_;
  if (speaking_ && heard_ - since_ > kLeastSpeech) parts.push_back({since_, heard_, true});
  return parts;
}

Result<SoundPart> SpeechDetector::next(uint64_t begin, uint64_t most,
                                       const std::function<bool()>& interrupted) {
  Status status;
  std::vector<SoundPart> parts;
  const auto hear_while = [&](const std::function<bool()>& more) {
    while (status.ok() && more() && !has_ended() && !interrupted()) status = hear();
  };
  hear_while([&] {
    const auto is_past = [&](const SoundPart& part) { return part.end <= begin; };
    spoken_.erase(spoken_.begin(), std::find_if_not(spoken_.begin(), spoken_.end(), is_past));
    parts = known();
    return parts.empty() || parts.back().end <= begin;
  });
  parts = known();
  const auto first = std::find_if(parts.begin(), parts.end(),
                                  [&](const SoundPart& part) { return part.end > begin; });
  if (!status.ok()) return status;
  if (first == parts.end()) return SoundPart{};
  SoundPart part{std::max(begin, first->begin - std::min(first->begin, kAround)), 0, false};
  const uint64_t limit = part.begin + most;
  hear_while([&] { return heard_ <= limit + kLeastPause; });
  if (!status.ok()) return status;
  part.end = std::min(limit, sound_->size());
  parts = known();
  // The pause behind each that ends within the part; of the last one it is as long as any.
  uint64_t longest = 0;
  part.goes_on = true;
  for (size_t i = 0; i < parts.size() && parts[i].begin < limit; ++i) {
    const bool ends = !parts[i].goes_on && parts[i].end <= limit;
    if (!ends || parts[i].end <= part.begin) continue;
    const uint64_t next = i + 1 < parts.size() ? parts[i + 1].begin : UINT64_MAX;
    const uint64_t pause = next - parts[i].end;
    const bool is_late = parts[i].end - part.begin > most / 2;
    if (is_late && pause < longest) continue;
    if (is_late) longest = pause;
    part.end = std::min({parts[i].end + std::min(kAround, pause / 2), limit, sound_->size()});
    part.goes_on = false;
  }
  return part;
}

}  // namespace thimble
