// Metal's device: the kernels' source compiled once, memory wrapped as buffers, dispatches encoded in
// one command buffer and waited for. plan.cpp decides what is dispatched.

#import <Foundation/Foundation.h>
#import <Metal/Metal.h>

#include "delegate/metal/device.h"
#include "platform/pages.h"

extern const char kMetalSource[];  // written by source.cmake

namespace thimble::metal {
namespace {

std::string text_of(NSError* error) {
  return error == nil ? "no reason given" : error.localizedDescription.UTF8String;
}

class MetalDevice final : public Device {
 public:
  static Result<std::unique_ptr<Device>> open() {
    std::unique_ptr<MetalDevice> device(new MetalDevice());
    device->device_ = MTLCreateSystemDefaultDevice();
    if (device->device_ == nil) {
      return Status::error("this system has no Metal device: export with --delegate cpu");
    }
    if (!device->device_.hasUnifiedMemory) {
      return Status::error(
          "this system's GPU does not share the processor's memory: export with --delegate cpu");
    }
    device->queue_ = [device->device_ newCommandQueue];
    Status status = device->compile();
    if (!status.ok()) return status;
    return std::unique_ptr<Device>(std::move(device));
  }

  std::string name() const override { return std::string("Metal on ") + device_.name.UTF8String; }

  Status bind(uint32_t buffer, void* data, size_t bytes) override {
    const size_t page = platform::page_size();
    const size_t whole = (bytes + page - 1) / page * page;
    if (buffers_.size() <= buffer) buffers_.resize(buffer + 1);
    buffers_[buffer] = [device_ newBufferWithBytesNoCopy:data
                                                  length:whole
                                                 options:MTLResourceStorageModeShared
                                             deallocator:nil];
    if (buffers_[buffer] != nil) return {};
    return Status::error("Metal refuses a buffer of " + std::to_string(whole) +
                         " bytes: free memory, or export with --delegate cpu");
  }

  Status run(const Dispatch* dispatches, size_t count) override {
    @autoreleasepool {
      id<MTLCommandBuffer> commands = [queue_ commandBuffer];
      // Serial: each dispatch begins when the one before has written its results.
      id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
      for (size_t i = 0; i < count; ++i) encode(dispatches[i], encoder);
      [encoder endEncoding];
      [commands commit];
      [commands waitUntilCompleted];
      if (commands.status == MTLCommandBufferStatusCompleted) return {};
      return Status::error("the GPU failed: " + text_of(commands.error) + ": try again");
    }
  }

 private:
  MetalDevice() = default;

  Status compile() {
    MTLCompileOptions* options = [[MTLCompileOptions alloc] init];
    options.languageVersion = MTLLanguageVersion2_4;
    options.fastMathEnabled = NO;  // IEEE: the bits of the CPU delegate's scalar kernels
    NSError* error = nil;
    id<MTLLibrary> library = [device_ newLibraryWithSource:@(kMetalSource)
                                                   options:options
                                                     error:&error];
    if (library == nil) {
      return Status::error("Metal does not compile the kernels: " + text_of(error) +
                           ": report it, and export with --delegate cpu");
    }
    for (size_t i = 0; i < kKernelCount; ++i) {
      const KernelShape& shape = shape_of(static_cast<Kernel>(i));
      id<MTLFunction> function = [library newFunctionWithName:@(shape.name)];
      id<MTLComputePipelineState> pipeline = nil;
      if (function != nil) {
        pipeline = [device_ newComputePipelineStateWithFunction:function error:&error];
      }
      if (pipeline == nil || pipeline.maxTotalThreadsPerThreadgroup < shape.threads) {
        return Status::error(std::string("this GPU does not run the kernel ") + shape.name + ": " +
                             text_of(error) + ": export with --delegate cpu");
      }
      pipelines_.push_back(pipeline);
    }
    return {};
  }

  void encode(const Dispatch& dispatch, id<MTLComputeCommandEncoder> encoder) {
    const KernelShape& shape = shape_of(dispatch.kernel);
    [encoder setComputePipelineState:pipelines_[static_cast<size_t>(dispatch.kernel)]];
    for (uint32_t i = 0; i < dispatch.buffer_count; ++i) {
      const BufferRef& ref = dispatch.buffers[i];
      [encoder setBuffer:buffers_[ref.buffer] offset:ref.offset atIndex:i];
    }
    [encoder setBytes:dispatch.constants
               length:dispatch.constant_bytes
              atIndex:dispatch.buffer_count];
    if (shape.memory_bytes > 0) [encoder setThreadgroupMemoryLength:shape.memory_bytes atIndex:0];
    [encoder dispatchThreadgroups:MTLSizeMake(dispatch.groups[0], dispatch.groups[1],
                                              dispatch.groups[2])
            threadsPerThreadgroup:MTLSizeMake(shape.threads, 1, 1)];
  }

  id<MTLDevice> device_;
  id<MTLCommandQueue> queue_;
  std::vector<id<MTLComputePipelineState>> pipelines_;  // in the order of Kernel
  std::vector<id<MTLBuffer>> buffers_;
};

}  // namespace

Result<std::unique_ptr<Device>> open_device() { return MetalDevice::open(); }

}  // namespace thimble::metal
