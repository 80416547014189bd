#include "delegate/session/segments.h"

#include <algorithm>
#include <set>
#include <string>

namespace thimble::cpu {
namespace {

constexpr int64_t kMostPairs = int64_t{1} << 12;

int64_t pairs_of(const thimble_segment& segment) { return segment.pairs == 0 ? 1 : segment.pairs; }

Status check_segment(const thimble_segment& segment) {
  if (segment.rows < 1 || segment.start_pos < 0 || segment.logit_rows < 0 ||
      segment.logit_rows > segment.rows) {
    return Status::error("a segment of " + std::to_string(segment.rows) + " rows from position " +
                         std::to_string(segment.start_pos) + " on with logits of " +
                         std::to_string(segment.logit_rows) +
                         " is not possible. Give 1 row or more, a position that is not negative, "
                         "and logits of no more rows than there are");
  }
  if (segment.positions == nullptr) return {};
  const int64_t pairs = pairs_of(segment);
  if (pairs < 0 || pairs > kMostPairs) {
    return Status::error("a segment has positions of " + std::to_string(pairs) +
                         " pairs: give at most " + std::to_string(kMostPairs));
  }
  for (int64_t i = 0; i < segment.rows * pairs; ++i) {
    const int64_t position = segment.positions[i], own = segment.start_pos + i / pairs;
    if (position >= 0 && position <= own) continue;
    return Status::error("row " + std::to_string(i / pairs) + " of the segment requests position " +
                         std::to_string(position) + " but is at " + std::to_string(own) +
                         " of its cache: give one from 0 to that");
  }
  return {};
}

/// Whether each row attends to itself, and to no fewer of the segment's rows than the one before.
Status check_ends(const thimble_segment& segment) {
  if (segment.ends == nullptr) return {};
  int64_t before = segment.start_pos;
  for (int64_t row = 0; row < segment.rows; ++row) {
    const int64_t end = segment.ends[row], position = segment.start_pos + row;
    if (end <= position || end < before || end > segment.start_pos + segment.rows) {
      return Status::error("row " + std::to_string(row) +
                           " of the segment attends to positions before " + std::to_string(end) +
                           " but is at " + std::to_string(position) +
                           " of its cache: give one behind it or more, in the segment, and no less "
                           "than for the row before");
    }
    before = end;
  }
  return {};
}

std::vector<uint32_t> ends_of(const thimble_segment& segment) {
  if (segment.ends == nullptr) return {};
  return {segment.ends, segment.ends + segment.rows};
}

/// The positions that are asked for; none where rows are rotated by those in the cache.
std::vector<uint32_t> rotated_by(const thimble_segment& segment) {
  if (segment.positions == nullptr) return {};
  return {segment.positions, segment.positions + segment.rows * pairs_of(segment)};
}

}  // namespace

size_t Segment::together() const {
  size_t most = 1;
  for (size_t row = 0; row < ends.size(); ++row) {
    most = std::max(most, ends[row] - static_cast<size_t>(start_pos) - row);
  }
  return most;
}

Result<Range> find_last_rows(const std::vector<Segment>& segments) {
  Range last{0, 0};
  size_t end = 0;
  for (const Segment& segment : segments) {
    end += segment.rows;
    if (segment.last_rows == 0) continue;
    const size_t first = end - segment.last_rows;
    if (last.size() > 0 && last.last != first) {
      return Status::error(
          "the rows that get logits do not follow one another. Put segments without logits first, "
          "then one with logits of some rows, then those with logits of all");
    }
    last = {last.size() > 0 ? last.first : first, end};
  }
  return last;
}

Result<AskedSegments> read_segments(const thimble_segment* segments, size_t count, float* logits,
                                    size_t logits_size) {
  AskedSegments asked;
  asked.logits = logits;
  asked.logits_size = logits_size;
  if (segments == nullptr) count = 0;
  std::set<int32_t> caches;
  for (size_t i = 0; i < count; ++i) {
    const thimble_segment& segment = segments[i];
    Status status = check_segment(segment);
    if (status.ok()) status = check_ends(segment);
    if (!status.ok()) return status;
    if (segment.cache != kNoCache && !caches.insert(segment.cache).second) {
      return Status::error("two segments use cache " + std::to_string(segment.cache) +
                           ": give each sequence a cache of its own");
    }
    asked.segments.push_back({segment.cache, segment.start_pos, static_cast<size_t>(segment.rows),
                              static_cast<size_t>(segment.logit_rows), rotated_by(segment),
                              static_cast<size_t>(pairs_of(segment)), ends_of(segment)});
  }
  const Result<Range> last = find_last_rows(asked.segments);
  if (!last.ok()) return last.status();
  if (last->size() > kMostLastRows || (last->size() > 1 && logits == nullptr)) {
    return Status::error("logits of " + std::to_string(last->size()) +
                         " rows were requested: request at most " + std::to_string(kMostLastRows) +
                         ", and give memory for more than 1");
  }
  return asked;
}

}  // namespace thimble::cpu
