#include "delegate/call_check.h"

namespace thimble::cpu {

Status check_call_rows(const Program& program, size_t length, size_t rows, int64_t start_pos) {
  if (rows == 0) return Status::error("the call has no tokens: give 1 or more");
  if (program.caches.empty()) return {};
  if (start_pos < 0 || static_cast<uint64_t>(start_pos) > length) {
    return Status::error("start_pos is " + std::to_string(start_pos) + ", but the KV cache holds " +
                         std::to_string(length) +
                         " positions: start at one of them or right behind");
  }
  for (const CacheShape& cache : program.caches) {
    const size_t start = static_cast<size_t>(start_pos);
    if (start <= cache.max_context_len && rows <= cache.max_context_len - start) continue;
    return Status::error(std::to_string(rows) + " tokens from position " + std::to_string(start) +
                         " on do not fit the context of " + std::to_string(cache.max_context_len) +
                         ": shorten the text, or export with a larger --max-context-len");
  }
  return {};
}

Status check_call_tokens(const Program& program, const int64_t* tokens, size_t rows) {
  for (const Op& op : program.ops) {
    const auto* embedding = std::get_if<EmbeddingOp>(&op.kind);
    if (embedding == nullptr) continue;
    const size_t count = program.weights[embedding->weight].rows;
    for (size_t i = 0; i < rows; ++i) {
      if (tokens[i] >= 0 && static_cast<uint64_t>(tokens[i]) < count) continue;
      return Status::error("there is no token " + std::to_string(tokens[i]) + ": give 0 to " +
                           std::to_string(count - 1));
    }
  }
  return {};
}

}  // namespace thimble::cpu
