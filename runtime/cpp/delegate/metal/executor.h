#pragma once

#include <memory>
#include <string>
#include <vector>

#include "delegate/metal/device.h"
#include "delegate/metal/plan.h"
#include "delegate/program/call.h"
#include "delegate/session/session_state.h"
#include "platform/pages.h"

namespace thimble::metal {

/// Runs a program on a device. Weights stay where the file is mapped and caches where the session
/// keeps them: the device reads and writes the same memory, so that the functions of session.h work
/// on them as on the CPU delegate's.
class MetalExecutor {
 public:
  /// \param weights in the order of the program, which they and `floats` must outlive.
  static Result<std::unique_ptr<MetalExecutor>> create(
      cpu::Program program, const std::vector<kernels::PackedWeight>& weights, const float* floats,
      std::shared_ptr<cpu::Session> session, std::unique_ptr<Device> device);
  ~MetalExecutor();
  MetalExecutor(const MetalExecutor&) = delete;
  MetalExecutor& operator=(const MetalExecutor&) = delete;

  const cpu::Program& program() const { return *program_; }

  /// The device, the cache, and how many bytes of weights had to be copied, as text for people.
  std::string describe() const;

  cpu::Session& session() const { return *session_; }

  /// Whether a call of these segments is possible.
  Status check(const cpu::Call& call) const;

  /// Runs a call that check() allows. With a tracer, every part of an operator is sent and waited
  /// for separately, so that its time is known.
  Status run(const cpu::Call& call);

 private:
  MetalExecutor(std::unique_ptr<cpu::Program> program, Plan plan,
                std::shared_ptr<cpu::Session> session, std::unique_ptr<Device> device,
                uint32_t number)
      : program_(std::move(program)),
        plan_(std::move(plan)),
        session_(std::move(session)),
        device_(std::move(device)),
        number_(number) {}

  Status bind_weights(const std::vector<kernels::PackedWeight>& weights, const float* floats);
  /// Binds memory in place, or a copy if it does not start at a page.
  Status bind_constant(uint32_t buffer, const void* data, size_t bytes);
  Status bind_own(uint32_t buffer, size_t bytes, uint8_t** data);
  /// Binds the caches of a call, if they are not bound yet.
  Status bind_caches(int32_t number);
  Status run_traced(executorch::runtime::EventTracer* tracer);

  const std::unique_ptr<cpu::Program> program_;
  const Plan plan_;
  const std::shared_ptr<cpu::Session> session_;
  const std::unique_ptr<Device> device_;
  const uint32_t number_;  ///< of the program in the session
  std::vector<platform::Pages> pages_;
  size_t copied_bytes_ = 0;
  uint8_t* arena_ = nullptr;
  int32_t* tokens_ = nullptr;
  int32_t bound_cache_ = -1;
  std::vector<Dispatch> dispatches_;
};

}  // namespace thimble::metal
