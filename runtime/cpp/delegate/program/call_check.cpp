#include "delegate/program/call_check.h"

namespace thimble::cpu {

Status choose_cache(const Program& program, const Session& session,
                    const std::optional<thimble_segment>& asked, Call* call) {
  Segment& segment = call->segment;
  segment.cache = session.current();
  if (!asked.has_value()) return {};
  segment.cache = asked->cache;
  const auto rows = static_cast<int64_t>(segment.rows);
  if (asked->rows != rows || asked->start_pos != segment.start_pos) {
    return Status::error("the segment has " + std::to_string(asked->rows) + " rows from position " +
                         std::to_string(asked->start_pos) + " on, and the call's inputs have " +
                         std::to_string(rows) + " from " + std::to_string(segment.start_pos) +
                         " on: make them equal");
  }
  if (!session.has_cache(segment.cache)) {
    return Status::error("the segment's cache " + std::to_string(segment.cache) +
                         " is freed: give one that is not");
  }
  for (size_t i = 0; asked->logit_rows > 0 && i < program.outputs.size(); ++i) {
    const auto given = static_cast<int64_t>(output_rows(program, i, segment.rows));
    if (asked->logit_rows == given) continue;
    return Status::error("logits of " + std::to_string(asked->logit_rows) +
                         " rows are asked for, and the program gives those of " +
                         std::to_string(given) + " of " + std::to_string(rows) +
                         ": ask for as many, or for 0");
  }
  return {};
}

Status check_call_rows(const Program& program, size_t length, const Segment& segment) {
  if (segment.rows == 0) return Status::error("the call has no tokens: give 1 or more");
  if (!program.has_positions() && !program.keeps()) return {};
  const int64_t start_pos = segment.start_pos;
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
                       std::to_string(program.num_positions) +
                       ": shorten the text, or export with a larger --max-context-len");
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
