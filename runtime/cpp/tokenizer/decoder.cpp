#include "tokenizer/decoder.h"

#include <algorithm>

namespace thimble {
namespace {

enum Field {
  kTokenEnds,
  kTokenBytes,
  kSkipped,
  kFirst,
  kDropsFirstSpace,
  kStartLasts,
  kLast,
  kDropsLastSpace,
  kReplacesEachByte,
  kSkippedCut,
  kFinish,
};
enum FinishField { kKind, kCharacter, kCount, kText };

constexpr size_t kMaxFinish = 16;

}  // namespace

Result<Decoder> Decoder::load(const FlatbufferTable& table) {
  const auto flag = [&table](Field field) { return table.scalar<uint8_t>(field) != 0; };
  Decoder decoder;
  decoder.texts_ =
      TokenTexts(table.vector<uint32_t>(kTokenEnds), table.vector<uint8_t>(kTokenBytes));
  if (decoder.texts_.size() == 0 || decoder.texts_.size() > 0x7FFFFFFF) {
    return Status::error("it has no tokens");
  }
  decoder.skipped_ = table.vector<uint32_t>(kSkipped);
  decoder.first_ = Exceptions(table.table(kFirst));
  decoder.drops_first_space_ = flag(kDropsFirstSpace);
  decoder.start_lasts_ = flag(kStartLasts);
  decoder.last_ = Exceptions(table.table(kLast));
  decoder.drops_last_space_ = flag(kDropsLastSpace);
  decoder.replaces_each_byte_ = flag(kReplacesEachByte);
  decoder.skipped_cut_ = flag(kSkippedCut);
  const FlatbufferTables finish = table.tables(kFinish);
  if (finish.size() > kMaxFinish) return Status::error("its texts are finished in too many steps");
  for (size_t i = 0; i < finish.size(); ++i) {
    const FlatbufferTable step = finish[i];
    decoder.finish_.push_back({step.scalar<uint8_t>(kKind), step.scalar<uint32_t>(kCharacter),
                               step.scalar<uint32_t>(kCount), step.string(kText)});
    if (decoder.finish_.back().kind > Finish::kStripRight) {
      return Status::error("its texts are finished in an unknown way");
    }
  }
  return decoder;
}

bool Decoder::skips(int32_t id) const {
  return id < 0 || id >= vocab_size() ||
         find_sorted(skipped_, static_cast<uint32_t>(id)) < skipped_.size();
}

bool Decoder::joins_texts() const {
  const auto is_at_start = [](const Finish& step) { return step.kind == Finish::kStripLeft; };
  return !knows_last() && std::all_of(finish_.begin(), finish_.end(), is_at_start);
}

std::string_view Decoder::text(int32_t id, bool first, bool last) const {
  if (id < 0 || id >= vocab_size()) return {};
  const auto index = static_cast<uint32_t>(id);
  std::string_view text = texts_[index];
  if (first) {
    const size_t place = find_sorted(first_.ids, index);
    if (place < first_.ids.size()) {
      text = first_.texts[place];
    } else if (drops_first_space_ && !text.empty() && text.front() == ' ') {
      text.remove_prefix(1);
    }
  }
  if (last) {
    const size_t place = find_sorted(last_.ids, index);
    if (place < last_.ids.size()) {
      text = last_.texts[place];
    } else if (drops_last_space_ && !text.empty() && text.back() == ' ') {
      text.remove_suffix(1);
    }
  }
  return text;
}

}  // namespace thimble
