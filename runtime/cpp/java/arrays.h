#pragma once

#include <jni.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "c_interface/thimble.h"

/// \file
/// Values of Java as the C interface takes them, and back. Text goes as bytes of UTF-8: JNI's own
/// strings have another encoding of zero bytes and of characters beyond 16 bits.

/// A native method of dev.thimble.Native.
#define THIMBLE_NATIVE(type, name) extern "C" JNIEXPORT type JNICALL Java_dev_thimble_Native_##name

namespace thimble::java {

constexpr size_t kErrorSize = 4096;

/// An array's bytes; "" for null. There may be an exception after it.
std::string to_bytes(JNIEnv* env, jbyteArray array);

std::vector<int32_t> to_ints(JNIEnv* env, jintArray array);

/// New arrays; null, with an exception, if there is no memory.
jbyteArray to_java(JNIEnv* env, const char* text, size_t size);
jbyteArray to_java(JNIEnv* env, const char* text);
jintArray to_java(JNIEnv* env, const std::vector<int32_t>& values);

/// Throws a RunnerException.
void raise(JNIEnv* env, const char* sentence);

template <typename T>
T* to_pointer(jlong value) {
  return reinterpret_cast<T*>(static_cast<intptr_t>(value));
}

inline jlong to_java(const void* pointer) {
  return static_cast<jlong>(reinterpret_cast<intptr_t>(pointer));
}

inline thimble_runner* to_runner(jlong value) { return to_pointer<thimble_runner>(value); }

/// Calls a function of the C interface with room for an error; throws that if the result is not 0.
template <typename Call>
void run(JNIEnv* env, const Call& call) {
  char error[kErrorSize] = "";
  if (call(error, sizeof(error)) != 0) raise(env, error);
}

/// The other numbers are in settings, which win.
inline thimble_options to_options(jlong seed) {
  thimble_options options = {};
  options.top_p = 1.0f;
  options.seed = static_cast<uint64_t>(seed);
  return options;
}

}  // namespace thimble::java
