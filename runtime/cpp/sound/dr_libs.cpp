/// FLAC and MP3 by dr_libs (David Reid; public domain or MIT-0).

#define DR_FLAC_IMPLEMENTATION
#define DR_FLAC_NO_STDIO
#define DR_MP3_IMPLEMENTATION
#define DR_MP3_NO_STDIO
#include <dr_flac.h>
#include <dr_mp3.h>

#include "sound/compressed.h"

namespace thimble {
namespace {

class FlacDecoder : public SoundDecoder {
 public:
  FlacDecoder(const uint8_t* bytes, size_t size)
      : flac_(drflac_open_memory(bytes, size, nullptr)) {}
  ~FlacDecoder() override { drflac_close(flac_); }
  bool is_open() const { return flac_ != nullptr; }
  int32_t channels() const override { return flac_->channels; }
  int32_t rate() const override { return static_cast<int32_t>(flac_->sampleRate); }
  uint64_t frames() const override { return flac_->totalPCMFrameCount; }
  size_t read(size_t count, int16_t* samples) override {
    return static_cast<size_t>(drflac_read_pcm_frames_s16(flac_, count, samples));
  }

 private:
  drflac* const flac_;
};

class Mp3Decoder : public SoundDecoder {
 public:
  Mp3Decoder(const uint8_t* bytes, size_t size)
      : open_(drmp3_init_memory(&mp3_, bytes, size, nullptr) != 0) {}
  ~Mp3Decoder() override {
    if (open_) drmp3_uninit(&mp3_);
  }
  bool is_open() const { return open_; }
  int32_t channels() const override { return static_cast<int32_t>(mp3_.channels); }
  int32_t rate() const override { return static_cast<int32_t>(mp3_.sampleRate); }
  uint64_t frames() const override { return 0; }
  size_t read(size_t count, int16_t* samples) override {
    return static_cast<size_t>(drmp3_read_pcm_frames_s16(&mp3_, count, samples));
  }

 private:
  drmp3 mp3_{};
  const bool open_;
};

template <typename Decoder>
std::unique_ptr<SoundDecoder> open(const uint8_t* bytes, size_t size) {
  auto decoder = std::make_unique<Decoder>(bytes, size);
  if (!decoder->is_open()) return nullptr;
  return decoder;
}

}  // namespace

bool decodes_compressed() { return true; }

std::unique_ptr<SoundDecoder> open_compressed(Compression kind, const uint8_t* bytes, size_t size) {
  return kind == Compression::kFlac ? open<FlacDecoder>(bytes, size)
                                    : open<Mp3Decoder>(bytes, size);
}

}  // namespace thimble
