#include "java/receiver.h"

#include <vector>

#include "java/arrays.h"

namespace thimble::java {

Receiver::Receiver(JNIEnv* env, jobject object) : env_(env), object_(object) {
  jclass type = env->GetObjectClass(object);
  text_ = env->GetMethodID(type, "text", "([B)V");
  if (text_ != nullptr) token_ = env->GetMethodID(type, "token", "(ID[B[I[D[[B)V");
  env->DeleteLocalRef(type);
}

bool Receiver::text(const char* text, size_t size) {
  if (env_->ExceptionCheck()) return false;
  jbyteArray bytes = to_java(env_, text, size);
  if (bytes == nullptr) return false;
  env_->CallVoidMethod(object_, text_, bytes);
  const bool thrown = env_->ExceptionCheck();
  env_->DeleteLocalRef(bytes);
  return !thrown;
}

bool Receiver::token(const thimble_token& chosen, const thimble_token* top, size_t count) {
  // 16: those of call_token(), besides a text for each token.
  if (env_->ExceptionCheck() || env_->PushLocalFrame(static_cast<jint>(count) + 16) != 0) {
    return false;
  }
  const bool passed = call_token(chosen, top, static_cast<jsize>(count));
  env_->PopLocalFrame(nullptr);
  return passed;
}

bool Receiver::call_token(const thimble_token& chosen, const thimble_token* top, jsize count) {
  std::vector<int32_t> ids;
  std::vector<jdouble> logprobs;
  jclass bytes = env_->FindClass("[B");
  if (bytes == nullptr) return false;
  jobjectArray texts = env_->NewObjectArray(count, bytes, nullptr);
  if (texts == nullptr) return false;
  for (jsize i = 0; i < count; ++i) {
    ids.push_back(top[i].token);
    logprobs.push_back(top[i].logprob);
    jbyteArray text = to_java(env_, top[i].text, top[i].size);
    if (text == nullptr) return false;
    env_->SetObjectArrayElement(texts, i, text);
    if (env_->ExceptionCheck()) return false;
  }
  jbyteArray text = to_java(env_, chosen.text, chosen.size);
  if (text == nullptr) return false;
  jintArray java_ids = to_java(env_, ids);
  if (java_ids == nullptr) return false;
  jdoubleArray java_logprobs = env_->NewDoubleArray(count);
  if (java_logprobs == nullptr) return false;
  env_->SetDoubleArrayRegion(java_logprobs, 0, count, logprobs.data());
  env_->CallVoidMethod(object_, token_, chosen.token, chosen.logprob, text, java_ids, java_logprobs,
                       texts);
  return !env_->ExceptionCheck();
}

}  // namespace thimble::java
