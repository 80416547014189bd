#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/status.h"
#include "delegate/metal/dispatch.h"

namespace thimble::metal {

/// What runs dispatches: Metal's device, or the processor in its place (tests/metal/device.cpp).
class Device {
 public:
  virtual ~Device() = default;

  virtual std::string name() const = 0;

  /// Binds the caller's memory to the buffer of that number; replaces an earlier binding.
  /// \param data at the start of a page; the pages must be the caller's to the end of the last one.
  virtual Status bind(uint32_t buffer, void* data, size_t bytes) = 0;

  /// Runs dispatches one after the other and waits for the last; memory that is bound may be read
  /// and written by the caller before and after, not during the call.
  virtual Status run(const Dispatch* dispatches, size_t count) = 0;
};

/// This system's device. Defined by the target that is linked: device.mm on Apple's systems.
Result<std::unique_ptr<Device>> open_device();

}  // namespace thimble::metal
