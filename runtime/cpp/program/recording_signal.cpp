#include "program/recording_signal.h"

#include <cstdio>
#include <utility>

#include "platform/process.h"
#include "platform/signals.h"

namespace thimble {
namespace {

void say(const std::string& text) { std::fprintf(stderr, "runner: %s\n", text.c_str()); }

}  // namespace

void block_recording_signal() { platform::block_user_signal(); }

RecordingSignal::RecordingSignal(Recorder& recorder, std::string path)
    : recorder_(recorder),
      path_(path.empty() ? "runner-" + std::to_string(platform::process_id()) + ".etdp"
                         : std::move(path)),
      thread_([this] { listen(); }) {}

RecordingSignal::~RecordingSignal() { end_listening(); }

void RecordingSignal::listen() {
  while (platform::wait_for_user_signal() && !ending_) toggle();
}

void RecordingSignal::end_listening() {
  if (!thread_.joinable()) return;
  ending_ = true;
  platform::send_user_signal(thread_);
  thread_.join();
}

void RecordingSignal::toggle() {
  const bool ends = recorder_.is_recording();
  const Status status = ends ? write() : recorder_.start({});
  if (!status.ok()) {
    say(status.message());
  } else if (!ends) {
    say("recording; another SIGUSR1 writes " + next_path());
  }
}

std::string RecordingSignal::next_path() const {
  return written_ == 0 ? path_ : path_ + "." + std::to_string(written_ + 1);
}

Status RecordingSignal::write() {
  const std::string path = next_path();
  const Result<Recording> recording = recorder_.stop(path);
  if (!recording.ok()) return recording.status();
  ++written_;
  say(describe(*recording, path));
  return {};
}

Status RecordingSignal::finish() {
  end_listening();
  return recorder_.is_recording() ? write() : Status();
}

}  // namespace thimble
