#include "engine/schedule.h"

#include <algorithm>

namespace thimble {

std::vector<SequenceRows> divide(const std::vector<size_t>& waiting, size_t turn,
                                 size_t prompt_rows) {
  std::vector<SequenceRows> parts, answers;
  std::vector<SequenceRows> whole;  // one at most: rows with logits must follow one another
  for (size_t i = 0; i < waiting.size(); ++i) {
    const size_t sequence = (turn + i) % waiting.size();
    if (waiting[sequence] == 1) {
      answers.push_back({sequence, 1, true});
      continue;
    }
    size_t rows = std::min(waiting[sequence], prompt_rows);
    if (rows == waiting[sequence] && whole.empty()) {
      whole.push_back({sequence, rows, true});
    } else {
      rows = std::min(rows, waiting[sequence] - 1);
      if (rows > 0) parts.push_back({sequence, rows, false});
    }
    prompt_rows -= rows;
  }
  parts.insert(parts.end(), whole.begin(), whole.end());
  parts.insert(parts.end(), answers.begin(), answers.end());
  return parts;
}

}  // namespace thimble
