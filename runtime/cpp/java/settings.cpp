#include "java/arrays.h"

using thimble::java::run;
using thimble::java::to_bytes;

namespace {

thimble_settings* to_settings(jlong value) {
  return thimble::java::to_pointer<thimble_settings>(value);
}

}  // namespace

THIMBLE_NATIVE(jlong, settingsNew)(JNIEnv*, jclass) {
  return thimble::java::to_java(thimble_settings_new());
}

THIMBLE_NATIVE(void, settingsFree)(JNIEnv*, jclass, jlong settings) {
  thimble_settings_free(to_settings(settings));
}

THIMBLE_NATIVE(void, settingsNumber)
(JNIEnv* env, jclass, jlong settings, jbyteArray name, jdouble value) {
  const std::string text = to_bytes(env, name);
  run(env, [&](char* error, size_t size) {
    return thimble_settings_number(to_settings(settings), text.c_str(), value, error, size);
  });
}

THIMBLE_NATIVE(void, settingsBias)
(JNIEnv* env, jclass, jlong settings, jint token, jdouble value) {
  run(env, [&](char* error, size_t size) {
    return thimble_settings_bias(to_settings(settings), token, value, error, size);
  });
}

THIMBLE_NATIVE(void, settingsStop)(JNIEnv* env, jclass, jlong settings, jbyteArray stop) {
  const std::string text = to_bytes(env, stop);
  run(env, [&](char* error, size_t size) {
    return thimble_settings_stop(to_settings(settings), text.data(), text.size(), error, size);
  });
}

THIMBLE_NATIVE(void, settingsPrediction)(JNIEnv* env, jclass, jlong settings,
                                         jbyteArray prediction) {
  const std::string text = to_bytes(env, prediction);
  run(env, [&](char* error, size_t size) {
    return thimble_settings_prediction(to_settings(settings), text.data(), text.size(), error,
                                       size);
  });
}
