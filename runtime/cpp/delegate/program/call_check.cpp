#include "delegate/program/call_check.h"

#include <algorithm>
#include <utility>

#include "core/longer_context.h"

namespace thimble::cpu {
namespace {

bool has_per_segment(const Program& program) {
  return std::any_of(program.outputs.begin(), program.outputs.end(), [&](const Value& output) {
    return program.slots[output.slot].is_per_segment();
  });
}

/// Whether the memory for logits has room for those that the program computes; without such memory
/// its own outputs have room for a row.
Status check_logits(const Program& program, const AskedSegments& asked) {
  const Slot& slot = program.slots[program.outputs.front().slot];
  if (asked.logits == nullptr) {
    if (asked.segments.size() == 1 || !has_per_segment(program)) return {};
    return Status::error("the program gives a row for each of " +
                         std::to_string(asked.segments.size()) +
                         " segments: give memory for their logits");
  }
  if (program.outputs.size() > 1 || slot.has_all_rows()) {
    return Status::error(
        "memory for logits was given, but the program returns those of all rows, or several "
        "outputs: give none, or export the model without that");
  }
  size_t rows = 0;
  for (const Segment& segment : asked.segments)
    rows += slot.is_per_segment() ? 1 : segment.last_rows;
  if (asked.logits_size / slot.width >= rows) return {};
  return Status::error("the memory for logits has " + std::to_string(asked.logits_size) +
                       " numbers, and " + std::to_string(rows) + " rows of " +
                       std::to_string(slot.width) + " were requested: give more");
}

}  // namespace

Status choose_segments(const Program& program, const Session& session, AskedSegments asked,
                       Call* call) {
  call->logits = asked.logits;
  if (asked.segments.empty()) {
    call->segments.front().cache = session.current();
    return {};
  }
  if (program.by_sample) {
    return Status::error("this program takes whole samples: request no segments of its calls");
  }
  size_t rows = 0;
  for (Segment& segment : asked.segments) {
    rows += segment.rows;
    if (segment.cache == kNoCache) {
      if (program.keeps()) {
        return Status::error("a segment has no cache, but this program keeps one: give its number");
      }
      segment.cache = session.current();
    }
    if (session.has_cache(segment.cache)) continue;
    return Status::error("the segment's cache " + std::to_string(segment.cache) +
                         " is freed: give one that is not");
  }
  const int64_t start_pos = call->segments.front().start_pos;
  if (rows != call->rows || asked.segments.front().start_pos != start_pos) {
    return Status::error("the segments have " + std::to_string(rows) + " rows from position " +
                         std::to_string(asked.segments.front().start_pos) +
                         " on, and the call's inputs have " + std::to_string(call->rows) +
                         " from " + std::to_string(start_pos) + " on: make them equal");
  }
  const Status status = check_logits(program, asked);
  if (!status.ok()) return status;
  call->segments = std::move(asked.segments);
  return {};
}

Status check_one_segment(const Call& call) {
  if (!call.segments.front().positions.empty()) {
    return Status::error(
        "this delegate rotates by the positions in the cache: leave others out, or export with "
        "--delegate cpu");
  }
  if (!call.segments.front().ends.empty()) {
    return Status::error(
        "rows of this delegate attend to none behind them: leave ends out, or export with "
        "--delegate cpu");
  }
  if (call.segments.size() == 1 && call.segments.front().last_rows == 1 && call.logits == nullptr) {
    return {};
  }
  return Status::error(
      "this delegate runs one segment per call, and returns logits of its last row alone: make one "
      "call for each, or export with --delegate cpu");
}

Status check_call_rows(const Program& program, size_t length, const Segment& segment) {
  if (segment.rows == 0) return Status::error("the call has no tokens: give 1 or more");
  if (!program.has_positions() && !program.keeps()) return {};
  const int64_t start_pos = segment.start_pos;
  if (program.needs_segments && start_pos != 0) {
    return Status::error("start_pos is " + std::to_string(start_pos) +
                         ", but this program reads whole texts: start at 0");
  }
  // Without a cache, nothing keeps track of positions.
  const size_t last = program.keeps() ? length : program.num_positions;
  if (start_pos < 0 || static_cast<uint64_t>(start_pos) > last) {
    return Status::error("start_pos is " + std::to_string(start_pos) + ", but the KV cache holds " +
                         std::to_string(last) + " positions: start at one of them or right behind");
  }
  const auto start = static_cast<size_t>(start_pos);
  if (start <= program.num_positions && segment.rows <= program.num_positions - start) return {};
  return Status::error(std::to_string(segment.rows) + " tokens from position " +
                       std::to_string(start) + " on do not fit the context of " +
                       std::to_string(program.num_positions) + ": shorten the text, or " +
                       export_longer());
}

Status check_call_tokens(const Program& program, const int64_t* tokens, size_t rows) {
  for (size_t i = 0; program.embeds() && i < rows; ++i) {
    if (tokens[i] >= 0 && static_cast<uint64_t>(tokens[i]) < program.num_tokens) continue;
    return Status::error("there is no token " + std::to_string(tokens[i]) + ": give 0 to " +
                         std::to_string(program.num_tokens - 1));
  }
  return {};
}

}  // namespace thimble::cpu
