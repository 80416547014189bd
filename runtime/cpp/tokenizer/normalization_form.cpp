#include "tokenizer/normalization_form.h"

#include <algorithm>

#include "tokenizer/token_texts.h"
#include "tokenizer/utf8.h"

namespace thimble {
namespace {

enum Field {
  kBlocks,
  kProperties,
  kDecomposed,
  kDecompositionEnds,
  kDecompositions,
  kComposes,
  kCompositions,
};

constexpr uint8_t kMayChange = 255;
constexpr size_t kTriple = 3;

// Hangul syllables, composed by arithmetic (Unicode standard, section 3.12).
constexpr uint32_t kSyllables = 0xAC00;
constexpr uint32_t kLeads = 0x1100;
constexpr uint32_t kVowels = 0x1161;
constexpr uint32_t kTrails = 0x11A7;  // one before the first
constexpr uint32_t kLeadCount = 19;
constexpr uint32_t kVowelCount = 21;
constexpr uint32_t kTrailCount = 28;
constexpr uint32_t kSyllableCount = kLeadCount * kVowelCount * kTrailCount;

uint32_t compose_hangul(uint32_t first, uint32_t second) {
  if (first - kLeads < kLeadCount && second - kVowels < kVowelCount) {
    return kSyllables + ((first - kLeads) * kVowelCount + (second - kVowels)) * kTrailCount;
  }
  const uint32_t syllable = first - kSyllables;
  if (syllable < kSyllableCount && syllable % kTrailCount == 0 && second > kTrails &&
      second < kTrails + kTrailCount) {
    return first + (second - kTrails);
  }
  return 0;
}

}  // namespace

Result<NormalizationForm> NormalizationForm::load(const FlatbufferTable& table) {
  Result<CodePointMap> properties =
      CodePointMap::load(table.vector<uint16_t>(kBlocks), table.vector<uint8_t>(kProperties));
  if (!properties.ok()) return properties.status();
  NormalizationForm form;
  form.properties_ = *properties;
  form.decomposed_ = table.vector<uint32_t>(kDecomposed);
  form.decomposition_ends_ = table.vector<uint32_t>(kDecompositionEnds);
  form.decompositions_ = table.vector<uint32_t>(kDecompositions);
  form.composes_ = table.scalar<uint8_t>(kComposes) != 0;
  form.compositions_ = table.vector<uint32_t>(kCompositions);
  constexpr uint32_t kCodePoints = 0x110000;
  bool sound = form.decomposed_.size() == form.decomposition_ends_.size() &&
               form.compositions_.size() % kTriple == 0;
  uint32_t last = 0;
  for (size_t i = 0; i < form.decomposition_ends_.size(); ++i) {
    const uint32_t end = form.decomposition_ends_[i];
    sound = sound && end >= last && end <= form.decompositions_.size();
    last = end;
  }
  for (size_t i = 0; i < form.decompositions_.size(); ++i) {
    sound = sound && form.decompositions_[i] < kCodePoints;
  }
  for (size_t i = 0; i < form.compositions_.size(); ++i) {
    sound = sound && form.compositions_[i] < kCodePoints;
  }
  if (!sound) return Status::error("the normalization tables do not match");
  return form;
}

bool NormalizationForm::is_inert(std::string_view text) const {
  for (size_t position = 0; position < text.size();) {
    if (static_cast<uint8_t>(text[position]) < 0x80) {
      ++position;
    } else if (properties_[next_code_point(text, &position)] != 0) {
      return false;
    }
  }
  return true;
}

std::string NormalizationForm::normalize(std::string_view text) const {
  std::vector<Mark> marks;
  marks.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    append_decomposed(next_code_point(text, &position), &marks);
  }
  // Canonical order: sorts runs of marks by their class; the sort is stable.
  for (auto begin = marks.begin(); begin != marks.end();) {
    const auto is_starter = [](const Mark& mark) { return mark.combining_class == 0; };
    const auto end = std::find_if(begin, marks.end(), is_starter);
    std::stable_sort(begin, end, [](const Mark& a, const Mark& b) {
      return a.combining_class < b.combining_class;
    });
    begin = end == marks.end() ? end : end + 1;
  }
  if (composes_) compose_marks(&marks);
  std::string normalized;
  normalized.reserve(text.size());
  for (const Mark& mark : marks) append_utf8(mark.point, &normalized);
  return normalized;
}

void NormalizationForm::compose_marks(std::vector<Mark>* marks) const {
  // Composition: a mark joins the last starter unless one of its class or a later one blocks it.
  size_t size = 0;
  size_t starter = marks->size();
  int last_class = -1;
  for (const Mark mark : std::vector<Mark>(*marks)) {
    if (starter < size && last_class < static_cast<int>(mark.combining_class)) {
      const uint32_t composed = compose((*marks)[starter].point, mark.point);
      if (composed != 0) {
        (*marks)[starter].point = composed;
        continue;
      }
    }
    if (mark.combining_class == 0) {
      starter = size;
      last_class = -1;
    } else {
      last_class = mark.combining_class;
    }
    (*marks)[size++] = mark;
  }
  marks->resize(size);
}

uint8_t NormalizationForm::combining_class(uint32_t point) const {
  const uint8_t property = properties_[point];
  return property == kMayChange ? 0 : property;
}

void NormalizationForm::append_decomposed(uint32_t point, std::vector<Mark>* marks) const {
  const uint32_t syllable = point - kSyllables;
  if (syllable < kSyllableCount) {
    marks->push_back({kLeads + syllable / (kVowelCount * kTrailCount), 0});
    marks->push_back({kVowels + syllable / kTrailCount % kVowelCount, 0});
    if (syllable % kTrailCount != 0) marks->push_back({kTrails + syllable % kTrailCount, 0});
    return;
  }
  const size_t place =
      lower_bound(decomposed_.size(), point, [this](size_t i) { return uint64_t{decomposed_[i]}; });
  if (place == decomposed_.size() || decomposed_[place] != point) {
    marks->push_back({point, combining_class(point)});
    return;
  }
  for (size_t i = place == 0 ? 0 : decomposition_ends_[place - 1]; i < decomposition_ends_[place];
       ++i) {
    marks->push_back({decompositions_[i], combining_class(decompositions_[i])});
  }
}

uint32_t NormalizationForm::compose(uint32_t first, uint32_t second) const {
  const uint32_t syllable = compose_hangul(first, second);
  if (syllable != 0) return syllable;
  const auto key = [](uint32_t a, uint32_t b) { return uint64_t{a} << 32 | b; };
  const auto key_at = [&](size_t i) {
    return key(compositions_[i * kTriple], compositions_[i * kTriple + 1]);
  };
  const size_t count = compositions_.size() / kTriple;
  const size_t place = lower_bound(count, key(first, second), key_at);
  if (place == count || key_at(place) != key(first, second)) return 0;
  return compositions_[place * kTriple + 2];
}

}  // namespace thimble
