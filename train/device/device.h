// Purpose: one GPU as this process uses it: its primary context (shared with the runtime API and with frameworks), its
// name and its capabilities.
//
// Ownership: shared by all objects that were made on it. Thread: any; a thread that calls the driver holds a Scope,
// which makes the context current for its lifetime. Failure: kUnavailable without driver or device.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "train/device/cuda_library.h"

namespace elastictrain::device {

class Device {
 public:
  // The GPU with this ordinal among those that the process sees (CUDA_VISIBLE_DEVICES). One object per GPU at a time.
  static Result<std::shared_ptr<Device>> open(int ordinal);
  // The number of GPUs that the process sees.
  static Result<int> count();
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const CudaLibrary& cuda() const { return cuda_; }
  int ordinal() const { return ordinal_; }
  CudaDevice handle() const { return device_; }
  const std::string& name() const { return name_; }
  int major() const { return major_; }  // of its compute capability
  int minor() const { return minor_; }
  int multiprocessors() const { return multiprocessors_; }

  class Scope {
   public:
    explicit Scope(const Device& device) : cuda_(device.cuda_) { pushed_ = cuda_.context_push(device.context_) == 0; }
    ~Scope() {
      CudaContext ignored = nullptr;
      if (pushed_) cuda_.context_pop(&ignored);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const CudaLibrary& cuda_;
    bool pushed_ = false;
  };

  // Waits on the host for all work that this process has queued in the context.
  Status synchronize();
  // Runs a small operation on a stream of its own and waits for it. An error means that the process cannot use the
  // device.
  Status probe();

 private:
  Device(const CudaLibrary& cuda, int ordinal) : cuda_(cuda), ordinal_(ordinal) {}
  Status start();

  const CudaLibrary& cuda_;
  const int ordinal_;
  CudaDevice device_ = 0;
  CudaContext context_ = nullptr;
  std::string name_;
  int major_ = 0;
  int minor_ = 0;
  int multiprocessors_ = 0;
};

}  // namespace elastictrain::device
