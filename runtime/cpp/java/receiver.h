#pragma once

#include <jni.h>

#include <cstddef>

#include "c_interface/thimble.h"

namespace thimble::java {

/// A Receiver of Java, to which text and tokens are passed. Once one of its methods has thrown, no
/// other is called.
class Receiver {
 public:
  /// `object` must outlive it, in the thread of `env`.
  Receiver(JNIEnv* env, jobject object);

  /// Pass on what the C interface gives; false if an exception is pending then.
  bool text(const char* text, size_t size);
  bool token(const thimble_token& chosen, const thimble_token* top, size_t count);

 private:
  bool call_token(const thimble_token& chosen, const thimble_token* top, jsize count);

  JNIEnv* env_;
  jobject object_;
  jmethodID text_ = nullptr;
  jmethodID token_ = nullptr;
};

}  // namespace thimble::java
