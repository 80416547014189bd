#include <algorithm>
#include <string>
#include <vector>

#include "java/arrays.h"
#include "java/receiver.h"

using thimble::java::kErrorSize;
using thimble::java::raise;
using thimble::java::Receiver;
using thimble::java::run;
using thimble::java::to_bytes;
using thimble::java::to_java;
using thimble::java::to_options;
using thimble::java::to_pointer;
using thimble::java::to_runner;

namespace {

/// An answer at work: what the callbacks of the C interface need.
struct Answer {
  Receiver receiver;
  thimble_runner* runner;
};

int on_text(const char* text, size_t size, void* context) {
  return static_cast<Answer*>(context)->receiver.text(text, size) ? 1 : 0;
}

void on_token(const thimble_token* chosen, const thimble_token* top, size_t count, void* context) {
  auto* answer = static_cast<Answer*>(context);
  if (!answer->receiver.token(*chosen, top, count)) thimble_interrupt(answer->runner, 1);
}

/// Calls `encode(tokens, capacity)` with enough room for a text of `size` bytes.
template <typename Encode>
jintArray read_tokens(JNIEnv* env, size_t size, const Encode& encode) {
  std::vector<int32_t> tokens(size + 2);  // at most one a byte, a leading space and BOS
  int64_t count = encode(tokens.data(), static_cast<int64_t>(tokens.size()));
  if (count > static_cast<int64_t>(tokens.size())) {
    tokens.resize(static_cast<size_t>(count));
    count = encode(tokens.data(), count);
  }
  if (count < 0) return nullptr;
  tokens.resize(static_cast<size_t>(count));
  return to_java(env, tokens);
}

}  // namespace

THIMBLE_NATIVE(jbyteArray, version)(JNIEnv* env, jclass) { return to_java(env, thimble_version()); }

THIMBLE_NATIVE(jlong, load)
(JNIEnv* env, jclass, jbyteArray path, jbyteArray public_key, jint threads, jint cache_type,
 jboolean huge_pages) {
  const thimble_load_options options = {threads, cache_type, huge_pages};
  char error[kErrorSize] = "";
  const std::string key = public_key == nullptr ? "" : to_bytes(env, public_key);
  thimble_runner* runner = thimble_load_signed(to_bytes(env, path).c_str(),
                                               public_key == nullptr ? nullptr : key.c_str(),
                                               &options, error, sizeof(error));
  if (runner == nullptr) raise(env, error);
  return to_java(runner);
}

THIMBLE_NATIVE(void, free)(JNIEnv*, jclass, jlong runner) { thimble_free(to_runner(runner)); }

THIMBLE_NATIVE(void, interrupt)(JNIEnv*, jclass, jlong runner, jboolean interrupted) {
  thimble_interrupt(to_runner(runner), interrupted);
}

THIMBLE_NATIVE(jlong, fork)(JNIEnv* env, jclass, jlong runner) {
  char error[kErrorSize] = "";
  thimble_runner* fork = thimble_fork(to_runner(runner), error, sizeof(error));
  if (fork == nullptr) raise(env, error);
  return to_java(fork);
}

THIMBLE_NATIVE(void, verify)(JNIEnv* env, jclass, jlong runner) {
  run(env,
      [&](char* error, size_t size) { return thimble_verify(to_runner(runner), error, size); });
}

THIMBLE_NATIVE(jlong, answer)
(JNIEnv* env, jclass, jlong runner, jboolean chat, jbyteArray text, jlong seed,
 jint constraint_kind, jbyteArray constraint, jlong settings, jint logprobs, jobject receiver) {
  const std::string bytes = to_bytes(env, text), wanted = to_bytes(env, constraint);
  const thimble_options options = to_options(seed);
  thimble_runner* asked = to_runner(runner);
  auto* changes = to_pointer<thimble_settings>(settings);
  Answer answer = {Receiver(env, receiver), asked};
  if (env->ExceptionCheck()) return 0;
  int64_t dropped_turns = 0;
  char error[kErrorSize] = "";
  int failed =
      thimble_constrain(asked, constraint_kind, wanted.data(), wanted.size(), error, sizeof(error));
  if (failed == 0 && logprobs >= 0) {
    failed = thimble_settings_tokens(changes, logprobs, on_token, &answer, error, sizeof(error));
  }
  if (failed == 0) {
    thimble_use_settings(asked, changes);
    failed = chat ? thimble_chat_say(asked, bytes.data(), bytes.size(), &options, on_text, &answer,
                                     &dropped_turns, error, sizeof(error))
                  : thimble_generate(asked, bytes.data(), bytes.size(), &options, on_text, &answer,
                                     error, sizeof(error));
    thimble_use_settings(asked, nullptr);
  }
  if (failed != 0 && !env->ExceptionCheck()) raise(env, error);
  return dropped_turns;
}

THIMBLE_NATIVE(jbyteArray, fileSettings)(JNIEnv* env, jclass, jlong runner) {
  return to_java(env, thimble_file_settings(to_runner(runner)));
}

THIMBLE_NATIVE(jbyteArray, stats)(JNIEnv* env, jclass, jlong runner) {
  return to_java(env, thimble_stats(to_runner(runner)));
}

THIMBLE_NATIVE(jbyteArray, constraintNotes)(JNIEnv* env, jclass, jlong runner) {
  return to_java(env, thimble_constraint_notes(to_runner(runner)));
}

THIMBLE_NATIVE(jlong, chatBegin)(JNIEnv* env, jclass, jlong runner, jbyteArray system) {
  const std::string text = to_bytes(env, system);
  int64_t conversation = -1;
  run(env, [&](char* error, size_t size) {
    conversation = thimble_chat_begin(to_runner(runner), text.data(), text.size(), error, size);
    return conversation < 0 ? 1 : 0;
  });
  return conversation;
}

THIMBLE_NATIVE(void, chatChoose)(JNIEnv* env, jclass, jlong runner, jlong conversation) {
  run(env, [&](char* error, size_t size) {
    return thimble_chat_choose(to_runner(runner), conversation, error, size);
  });
}

THIMBLE_NATIVE(void, chatEnd)(JNIEnv*, jclass, jlong runner, jlong conversation) {
  thimble_chat_end(to_runner(runner), conversation);
}

THIMBLE_NATIVE(void, chatAdd)(JNIEnv* env, jclass, jlong runner, jbyteArray message,
                              jbyteArray answer) {
  const std::string asked = to_bytes(env, message), said = to_bytes(env, answer);
  run(env, [&](char* error, size_t size) {
    return thimble_chat_add(to_runner(runner), asked.data(), asked.size(), said.data(), said.size(),
                            error, size);
  });
}

THIMBLE_NATIVE(void, chatReset)(JNIEnv* env, jclass, jlong runner) {
  run(env,
      [&](char* error, size_t size) { return thimble_chat_reset(to_runner(runner), error, size); });
}

THIMBLE_NATIVE(jlong, chatTurns)(JNIEnv*, jclass, jlong runner, jlong conversation) {
  return thimble_chat_turns_of(to_runner(runner), conversation);
}

THIMBLE_NATIVE(jintArray, encode)(JNIEnv* env, jclass, jlong runner, jbyteArray text) {
  const std::string bytes = to_bytes(env, text);
  return read_tokens(env, bytes.size(), [&](int32_t* tokens, int64_t capacity) {
    return thimble_encode(to_runner(runner), bytes.data(), bytes.size(), tokens, capacity);
  });
}

THIMBLE_NATIVE(jintArray, encodePrompt)(JNIEnv* env, jclass, jlong runner, jbyteArray text) {
  const std::string bytes = to_bytes(env, text);
  char error[kErrorSize] = "";
  jintArray tokens = read_tokens(env, bytes.size(), [&](int32_t* ids, int64_t capacity) {
    return thimble_encode_prompt(to_runner(runner), bytes.data(), bytes.size(), ids, capacity,
                                 error, sizeof(error));
  });
  if (tokens == nullptr && !env->ExceptionCheck()) raise(env, error);
  return tokens;
}

THIMBLE_NATIVE(jlong, length)(JNIEnv*, jclass, jlong runner) {
  return thimble_length(to_runner(runner));
}

THIMBLE_NATIVE(void, truncate)(JNIEnv* env, jclass, jlong runner, jlong length) {
  run(env, [&](char* error, size_t size) {
    return thimble_truncate(to_runner(runner), length, error, size);
  });
}

THIMBLE_NATIVE(void, save)(JNIEnv* env, jclass, jlong runner, jbyteArray path) {
  const std::string file = to_bytes(env, path);
  run(env, [&](char* error, size_t size) {
    return thimble_save(to_runner(runner), file.c_str(), error, size);
  });
}

THIMBLE_NATIVE(void, restore)(JNIEnv* env, jclass, jlong runner, jbyteArray path) {
  const std::string file = to_bytes(env, path);
  run(env, [&](char* error, size_t size) {
    return thimble_restore(to_runner(runner), file.c_str(), error, size);
  });
}

THIMBLE_NATIVE(jobjectArray, adapters)(JNIEnv* env, jclass, jlong runner) {
  jclass bytes = env->FindClass("[B");
  if (bytes == nullptr) return nullptr;
  const auto count = static_cast<jsize>(thimble_adapters(to_runner(runner)));
  jobjectArray names = env->NewObjectArray(count, bytes, nullptr);
  for (jsize i = 0; names != nullptr && i < count; ++i) {
    jbyteArray name = to_java(env, thimble_adapter_at(to_runner(runner), i));
    if (name == nullptr) return nullptr;
    env->SetObjectArrayElement(names, i, name);
    if (env->ExceptionCheck()) return nullptr;
    env->DeleteLocalRef(name);
  }
  return names;
}

THIMBLE_NATIVE(jbyteArray, adapter)(JNIEnv* env, jclass, jlong runner) {
  return to_java(env, thimble_adapter(to_runner(runner)));
}

THIMBLE_NATIVE(void, useAdapter)(JNIEnv* env, jclass, jlong runner, jbyteArray name) {
  const std::string adapter = to_bytes(env, name);
  run(env, [&](char* error, size_t size) {
    return thimble_use_adapter(to_runner(runner), adapter.c_str(), error, size);
  });
}

THIMBLE_NATIVE(void, useDraft)(JNIEnv* env, jclass, jlong runner, jbyteArray draft) {
  const std::string given = to_bytes(env, draft);
  run(env, [&](char* error, size_t size) {
    return thimble_use_draft(to_runner(runner), given.c_str(), error, size);
  });
}
