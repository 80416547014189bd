#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "java/arrays.h"
#include "java/receiver.h"

using thimble::java::kErrorSize;
using thimble::java::raise;
using thimble::java::Receiver;
using thimble::java::to_bytes;
using thimble::java::to_java;
using thimble::java::to_options;
using thimble::java::to_pointer;
using thimble::java::to_runner;

namespace {

/// A request that an engine has accepted, and the RequestReceiver of Java, whose methods throw
/// nothing, so that only a lack of memory is an exception here. It ends the request.
class Request {
 public:
  Request(JNIEnv* env, jobject receiver) : receiver_(env->NewGlobalRef(receiver)) {
    env->GetJavaVM(&vm_);
  }

  bool valid() const { return receiver_ != nullptr; }

  bool text(const char* text, size_t size) {
    return wanted_ = wanted_ && clear(Receiver(env(), receiver_).text(text, size));
  }

  void token(const thimble_token& chosen, const thimble_token* top, size_t count) {
    wanted_ = wanted_ && clear(Receiver(env(), receiver_).token(chosen, top, count));
  }

  void end(const char* error, const char* stats) {
    if (!wanted_ && error == nullptr) error = "there is no memory for the answer: free some";
    JNIEnv* here = env();
    jclass type = here->GetObjectClass(receiver_);
    jmethodID method = here->GetMethodID(type, "end", "([B[B)V");
    jbyteArray sentence = error != nullptr ? to_java(here, error) : nullptr;
    jbyteArray json = here->ExceptionCheck() ? nullptr : to_java(here, stats);
    clear(!here->ExceptionCheck());
    here->CallVoidMethod(receiver_, method, sentence, json);
    clear(!here->ExceptionCheck());
    for (jobject local : {jobject{type}, jobject{sentence}, jobject{json}}) {
      if (local != nullptr) here->DeleteLocalRef(local);
    }
    free(here);
  }

  void free(JNIEnv* env) { env->DeleteGlobalRef(receiver_); }

 private:
  JNIEnv* env() const {
    void* environment = nullptr;
    vm_->GetEnv(&environment, JNI_VERSION_1_6);
    return static_cast<JNIEnv*>(environment);
  }

  bool clear(bool passed) const {
    if (!passed) env()->ExceptionClear();
    return passed;
  }

  JavaVM* vm_ = nullptr;
  jobject receiver_;
  bool wanted_ = true;
};

int on_text(const char* text, size_t size, void* context) {
  return static_cast<Request*>(context)->text(text, size) ? 1 : 0;
}

void on_token(const thimble_token* chosen, const thimble_token* top, size_t count, void* context) {
  static_cast<Request*>(context)->token(*chosen, top, count);
}

void on_end(const char* error, const char* stats, void* context) {
  const std::unique_ptr<Request> request(static_cast<Request*>(context));
  request->end(error, stats);
}

}  // namespace

THIMBLE_NATIVE(jlong, engineOpen)
(JNIEnv* env, jclass, jlong runner, jint sequences, jint queue, jint prompt_rows) {
  const thimble_engine_options options = {sequences, queue, prompt_rows};
  char error[kErrorSize] = "";
  thimble_engine* engine = thimble_engine_open(to_runner(runner), &options, error, sizeof(error));
  if (engine == nullptr) raise(env, error);
  return to_java(engine);
}

THIMBLE_NATIVE(jlong, engineSubmit)
(JNIEnv* env, jclass, jlong engine, jintArray tokens, jlong seed, jint constraint_kind,
 jbyteArray constraint, jlong settings, jint logprobs, jbyteArray adapter, jobject receiver) {
  const std::vector<int32_t> ids = thimble::java::to_ints(env, tokens);
  const std::string constraint_text = to_bytes(env, constraint), name = to_bytes(env, adapter);
  const thimble_request request = {
      ids.data(),      static_cast<int64_t>(ids.size()), to_options(seed),
      constraint_kind, constraint_text.data(),           constraint_text.size()};
  auto* changes = to_pointer<thimble_settings>(settings);
  auto accepted = std::make_unique<Request>(env, receiver);
  if (!accepted->valid()) return 0;
  char error[kErrorSize] = "";
  int failed = 0;
  if (logprobs >= 0) {
    failed =
        thimble_settings_tokens(changes, logprobs, on_token, accepted.get(), error, sizeof(error));
  }
  int64_t id = 0;
  if (failed == 0) {
    id = thimble_engine_submit_with(to_pointer<thimble_engine>(engine), &request, changes,
                                    adapter != nullptr ? name.c_str() : nullptr, on_text, on_end,
                                    accepted.get(), error, sizeof(error));
  }
  if (id == 0) {
    accepted->free(env);
    raise(env, error);
  } else {
    (void)accepted.release();  // on_end() has it
  }
  return id;
}

THIMBLE_NATIVE(void, engineCancel)(JNIEnv*, jclass, jlong engine, jlong request) {
  thimble_engine_cancel(to_pointer<thimble_engine>(engine), request);
}

THIMBLE_NATIVE(jlong, engineStep)(JNIEnv*, jclass, jlong engine) {
  return thimble_engine_step(to_pointer<thimble_engine>(engine));
}

THIMBLE_NATIVE(void, engineFree)(JNIEnv*, jclass, jlong engine) {
  thimble_engine_free(to_pointer<thimble_engine>(engine));
}
