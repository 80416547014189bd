#include "java/arrays.h"

#include <cstring>

namespace thimble::java {

std::string to_bytes(JNIEnv* env, jbyteArray array) {
  if (array == nullptr) return "";
  const jsize size = env->GetArrayLength(array);
  std::string bytes(static_cast<size_t>(size), '\0');
  env->GetByteArrayRegion(array, 0, size, reinterpret_cast<jbyte*>(bytes.data()));
  return bytes;
}

std::vector<int32_t> to_ints(JNIEnv* env, jintArray array) {
  const jsize size = env->GetArrayLength(array);
  std::vector<int32_t> values(static_cast<size_t>(size));
  env->GetIntArrayRegion(array, 0, size, values.data());
  return values;
}

jbyteArray to_java(JNIEnv* env, const char* text, size_t size) {
  const auto length = static_cast<jsize>(size);
  jbyteArray array = env->NewByteArray(length);
  if (array == nullptr) return nullptr;
  env->SetByteArrayRegion(array, 0, length, reinterpret_cast<const jbyte*>(text));
  return array;
}

jbyteArray to_java(JNIEnv* env, const char* text) { return to_java(env, text, std::strlen(text)); }

jintArray to_java(JNIEnv* env, const std::vector<int32_t>& values) {
  const auto length = static_cast<jsize>(values.size());
  jintArray array = env->NewIntArray(length);
  if (array == nullptr) return nullptr;
  env->SetIntArrayRegion(array, 0, length, values.data());
  return array;
}

void raise(JNIEnv* env, const char* sentence) {
  jclass type = env->FindClass("dev/thimble/RunnerException");
  if (type == nullptr) return;
  jmethodID constructor = env->GetMethodID(type, "<init>", "([B)V");
  if (constructor == nullptr) return;
  jbyteArray bytes = to_java(env, sentence);
  if (bytes == nullptr) return;
  jobject exception = env->NewObject(type, constructor, bytes);
  if (exception != nullptr) env->Throw(static_cast<jthrowable>(exception));
}

}  // namespace thimble::java
