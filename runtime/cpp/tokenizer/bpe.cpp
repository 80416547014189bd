#include "tokenizer/bpe.h"

#include <algorithm>

namespace thimble {
namespace {

// Up to this length, checking every pair for each merge is faster than a heap.
constexpr size_t kShort = 48;
constexpr uint32_t kGone = MergeTable::kNone;

}  // namespace

void BpeMerger::merge(const MergeTable& merges, std::vector<uint32_t>* symbols) {
  if (symbols->size() < 2) return;
  if (symbols->size() <= kShort) {
    merge_short(merges, symbols);
  } else {
    merge_long(merges, symbols);
  }
}

void BpeMerger::merge_short(const MergeTable& merges, std::vector<uint32_t>* symbols) {
  std::vector<uint32_t>& ids = *symbols;
  pairs_.resize(ids.size() - 1);
  for (size_t i = 0; i + 1 < ids.size(); ++i) pairs_[i] = merges.find(ids[i], ids[i + 1]);
  while (!pairs_.empty()) {
    size_t best = 0;
    for (size_t i = 1; i < pairs_.size(); ++i) {
      if (pairs_[i].rank < pairs_[best].rank) best = i;
    }
    if (pairs_[best].rank == MergeTable::kNone) break;
    ids[best] = pairs_[best].merged;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    pairs_.erase(pairs_.begin() + static_cast<std::ptrdiff_t>(best));
    if (best > 0) pairs_[best - 1] = merges.find(ids[best - 1], ids[best]);
    if (best < pairs_.size()) pairs_[best] = merges.find(ids[best], ids[best + 1]);
  }
}

void BpeMerger::merge_long(const MergeTable& merges, std::vector<uint32_t>* symbols) {
  const auto size = static_cast<int32_t>(symbols->size());
  list_.resize(symbols->size());
  heap_.clear();
  for (int32_t i = 0; i < size; ++i) {
    list_[i] = {(*symbols)[i], i - 1, i + 1 < size ? i + 1 : -1};
  }
  for (int32_t i = 0; i + 1 < size; ++i) add_candidate(merges, i, i + 1);
  const auto comes_later = [](const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
  };
  std::make_heap(heap_.begin(), heap_.end(), comes_later);
  const auto push = [&](int32_t position, int32_t next) {
    const size_t before = heap_.size();
    add_candidate(merges, position, next);
    if (heap_.size() > before) std::push_heap(heap_.begin(), heap_.end(), comes_later);
  };
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), comes_later);
    const Candidate best = heap_.back();
    heap_.pop_back();
    Symbol& left = list_[best.position];
    if (left.id != best.left || left.next < 0 || list_[left.next].id != best.right) continue;
    Symbol& right = list_[left.next];
    left.id = best.merged;
    left.next = right.next;
    right.id = kGone;
    if (left.next >= 0) {
      list_[left.next].previous = best.position;
      push(best.position, left.next);
    }
    if (left.previous >= 0) push(left.previous, best.position);
  }
  symbols->clear();
  for (int32_t i = 0; i >= 0; i = list_[i].next) symbols->push_back(list_[i].id);
}

void BpeMerger::add_candidate(const MergeTable& merges, int32_t position, int32_t next) {
  const uint32_t left = list_[position].id;
  const uint32_t right = list_[next].id;
  const MergeTable::Merge merge = merges.find(left, right);
  if (merge.rank != MergeTable::kNone) {
    heap_.push_back({merge.rank, position, left, right, merge.merged});
  }
}

}  // namespace thimble
