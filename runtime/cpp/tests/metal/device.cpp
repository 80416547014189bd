// The processor in a Metal device's place: dispatches run on the shim.

#include "delegate/metal/device.h"

#include <cstdlib>
#include <cstring>

#include "tests/metal/kernels.h"

namespace thimble::metal {
namespace {

class ShimDevice final : public Device {
 public:
  std::string name() const override { return "Metal kernels on the processor"; }

  Status bind(uint32_t buffer, void* data, size_t bytes) override {
    if (buffers_.size() <= buffer) buffers_.resize(buffer + 1);
    buffers_[buffer] = {static_cast<uint8_t*>(data), bytes};
    return {};
  }

  Status run(const Dispatch* dispatches, size_t count) override {
    for (size_t i = 0; i < count; ++i) {
      void* buffers[kMostBuffers];
      for (uint32_t b = 0; b < dispatches[i].buffer_count; ++b) {
        const BufferRef& ref = dispatches[i].buffers[b];
        if (ref.buffer >= buffers_.size() || ref.offset >= buffers_[ref.buffer].bytes) {
          return Status::error("a dispatch uses buffer " + std::to_string(ref.buffer) + " from " +
                               std::to_string(ref.offset) + " on, which is not bound");
        }
        buffers[b] = buffers_[ref.buffer].data + ref.offset;
      }
      const std::string wrong = test::run_on_shim(dispatches[i], buffers, order());
      if (!wrong.empty()) return Status::error(wrong);
    }
    return {};
  }

 private:
  struct Buffer {
    uint8_t* data = nullptr;
    size_t bytes = 0;
  };

  /// The environment may ask for another order of threads.
  static metal_shim::Order order() {
    const char* asked = std::getenv("THIMBLE_METAL_ORDER");
    if (asked == nullptr) return metal_shim::Order::kForward;
    return std::strcmp(asked, "backward") == 0 ? metal_shim::Order::kBackward
                                               : metal_shim::Order::kShuffled;
  }

  std::vector<Buffer> buffers_;
};

}  // namespace

Result<std::unique_ptr<Device>> open_device() {
  return std::unique_ptr<Device>(std::make_unique<ShimDevice>());
}

}  // namespace thimble::metal
