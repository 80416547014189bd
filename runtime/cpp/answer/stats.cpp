#include "answer/stats.h"

#include <cstdio>

#include "platform/memory_use.h"
#include "tokenizer/utf8.h"

namespace thimble {
namespace {

double rate(int64_t tokens, double seconds) { return seconds > 0.0 ? tokens / seconds : 0.0; }

std::string number(double value, const char* format) {
  char text[64];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

std::string quoted(const std::string& text) {
  std::string json = "\"";
  for (const char c : with_valid_utf8(text)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == '"' || byte == '\\') {
      json += '\\';
      json += c;
    } else if (byte < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", byte);
      json += escape;
    } else {
      json += c;
    }
  }
  return json + '"';
}

}  // namespace

const char* stop_reason_name(StopReason reason) {
  switch (reason) {
    case StopReason::kNone:
      return "";
    case StopReason::kEos:
      return "eos";
    case StopReason::kComplete:
      return "complete";
    case StopReason::kLength:
      return "length";
    case StopReason::kContextFull:
      return "context_full";
    case StopReason::kInterrupted:
      return "interrupted";
    case StopReason::kStop:
      return "stop";
  }
  return "";
}

double Stats::prefill_tokens_per_s() const { return rate(prompt_tokens, prefill_s); }

double Stats::decode_tokens_per_s() const { return rate(decoded_tokens, decode_s); }

std::string to_json(const Stats& stats, const std::string& logprobs) {
  std::string json = "{\"model\": " + quoted(stats.model);
  const auto add = [&json](const char* key, const std::string& value) {
    json += std::string(", \"") + key + "\": " + value;
  };
  const auto add_seconds = [&add](const char* key, double value) {
    add(key, number(value, "%.6f"));
  };
  add("method", quoted(stats.method));
  add("delegate", quoted(stats.delegate));
  add("runs_with", quoted(stats.runs_with));
  add("adapter", quoted(stats.adapter));
  add("threads", std::to_string(stats.threads));
  add_seconds("load_s", stats.load_s);
  add_seconds("ttft_s", stats.ttft_s);
  add("prompt_tokens", std::to_string(stats.prompt_tokens));
  add("cached_tokens", std::to_string(stats.cached_tokens));
  add("recomputed_tokens", std::to_string(stats.recomputed_tokens));
  add("image_rows", std::to_string(stats.image_rows));
  add("generated_tokens", std::to_string(stats.generated_tokens));
  add("forced_tokens", std::to_string(stats.forced_tokens));
  add_seconds("prefill_s", stats.prefill_s);
  add("prefill_tokens_per_s", number(stats.prefill_tokens_per_s(), "%.3f"));
  add_seconds("decode_s", stats.decode_s);
  add("decode_tokens_per_s", number(stats.decode_tokens_per_s(), "%.3f"));
  add("drafted_tokens", std::to_string(stats.drafted_tokens));
  add("accepted_tokens", std::to_string(stats.accepted_tokens));
  add("peak_memory_bytes", std::to_string(platform::peak_memory_bytes()));
  add("recorded_calls", std::to_string(stats.recorded_calls));
  add("dropped_calls", std::to_string(stats.dropped_calls));
  add("end_token", std::to_string(stats.end_token));
  add("end_text", quoted(stats.end_text));
  add("incomplete", stats.incomplete ? "true" : "false");
  std::string left_out;
  for (const std::string& what : stats.left_out) {
    left_out += (left_out.empty() ? "" : ", ") + quoted(what);
  }
  add("left_out", "[" + left_out + "]");
  add("stop_reason", quoted(stop_reason_name(stats.stop_reason)));
  if (!logprobs.empty()) add("logprobs", logprobs);
  return json + "}\n";
}

std::string to_line(const Stats& stats) {
  const std::string cached =
      stats.cached_tokens > 0 ? " (" + std::to_string(stats.cached_tokens) + " more cached)" : "";
  const std::string runs_with =
      !stats.runs_with.empty()
          ? stats.runs_with
          : std::to_string(stats.threads) + (stats.threads == 1 ? " thread" : " threads");
  const std::string adapter = stats.adapter.empty() ? "" : ", adapter " + stats.adapter;
  const std::string recomputed =
      stats.recomputed_tokens > 0
          ? ", " + std::to_string(stats.recomputed_tokens) +
                " computed again, because the text's new length changed its rotary table"
          : "";
  const std::string drafted = stats.drafted_tokens > 0
                                  ? ", " + std::to_string(stats.accepted_tokens) + " of " +
                                        std::to_string(stats.drafted_tokens) + " drafted accepted"
                                  : "";
  const int64_t calls = stats.recorded_calls + stats.dropped_calls;
  const std::string recorded = calls > 0 ? ", recorded " + std::to_string(stats.recorded_calls) +
                                               " of " + std::to_string(calls) + " calls"
                                         : "";
  return std::to_string(stats.prompt_tokens) + " prompt" + cached + " + " +
         std::to_string(stats.generated_tokens) + " generated tokens, prefill " +
         number(stats.prefill_tokens_per_s(), "%.1f") + " tok/s, decode " +
         number(stats.decode_tokens_per_s(), "%.1f") + " tok/s, first token " +
         number(stats.ttft_s * 1e3, "%.1f") + " ms, load " + number(stats.load_s * 1e3, "%.1f") +
         " ms, peak memory " + number(platform::peak_memory_bytes() / 1e6, "%.0f") + " MB, " +
         runs_with + adapter + drafted + recomputed + recorded;
}

}  // namespace thimble
