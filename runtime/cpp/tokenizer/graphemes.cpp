#include "tokenizer/graphemes.h"

#include "tokenizer/utf8.h"

namespace thimble {
namespace {

using Class = GraphemeClass;

/// What the rules ask of the characters that are already in a cluster.
struct Cluster {
  Class last;
  bool after_pictograph;  // a pictograph and its extensions, then perhaps a joiner
  bool after_consonant;   // a consonant, its extensions and linkers
  bool has_linker;
};

bool is_control(Class c) {
  return c == Class::kControl || c == Class::kCarriageReturn || c == Class::kLineFeed;
}

bool extends(Class c) {
  return c == Class::kExtend || c == Class::kExtendApart || c == Class::kLinker;
}

bool joins_hangul(Class last, Class next) {
  const bool next_is_trail = next == Class::kHangulTrail;
  const bool next_is_vowel = next == Class::kHangulVowel;
  if (last == Class::kHangulLead) {
    return next == Class::kHangulLead || next_is_vowel || next == Class::kHangulOpen ||
           next == Class::kHangulClosed;
  }
  if (last == Class::kHangulOpen || last == Class::kHangulVowel) {
    return next_is_vowel || next_is_trail;
  }
  return (last == Class::kHangulClosed || last == Class::kHangulTrail) && next_is_trail;
}

/// Whether no cluster ends between what there is and `next`.
bool joins(const Cluster& cluster, Class next) {
  const Class last = cluster.last;
  if (last == Class::kCarriageReturn && next == Class::kLineFeed) return true;
  if (is_control(last) || is_control(next)) return false;
  if (extends(next) || next == Class::kJoiner || next == Class::kSpacingMark) return true;
  if (last == Class::kPrepend || joins_hangul(last, next)) return true;
  if (next == Class::kConsonant) return cluster.after_consonant && cluster.has_linker;
  return next == Class::kPictograph && cluster.after_pictograph && last == Class::kJoiner;
}

void add(Class next, Cluster* cluster) {
  const bool lies_within = next == Class::kExtend || next == Class::kLinker;
  if (next == Class::kPictograph) {
    cluster->after_pictograph = true;
  } else if (!(extends(next) || next == Class::kJoiner) || cluster->last == Class::kJoiner) {
    cluster->after_pictograph = false;
  }
  if (next == Class::kConsonant) {
    cluster->after_consonant = true;
    cluster->has_linker = false;
  } else if (lies_within || next == Class::kJoiner) {
    cluster->has_linker = cluster->has_linker || next == Class::kLinker;
  } else {
    cluster->after_consonant = false;
  }
  cluster->last = next;
}

}  // namespace

size_t grapheme_length(std::string_view text, const CodePointMap& classes) {
  const auto class_of = [&classes](uint32_t point) { return static_cast<Class>(classes[point]); };
  size_t end = 0;
  Cluster cluster{Class::kOther, false, false, false};
  add(class_of(next_code_point(text, &end)), &cluster);
  while (end < text.size()) {
    size_t position = end;
    const Class next = class_of(next_code_point(text, &position));
    if (!joins(cluster, next)) break;
    add(next, &cluster);
    end = position;
  }
  return end;
}

}  // namespace thimble
