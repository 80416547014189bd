#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

/// What the test programs speak over their pipes: little-endian uint32 counts before everything.
namespace thimble {

inline bool read_count(uint32_t* count) { return std::fread(count, sizeof(*count), 1, stdin) == 1; }

/// A count, then as many values.
template <typename T>
bool read_values(std::vector<T>* values) {
  uint32_t count = 0;
  if (!read_count(&count)) return false;
  values->resize(count);
  return count == 0 || std::fread(values->data(), sizeof(T), count, stdin) == count;
}

/// A count, then as many texts, each behind its own length.
inline bool read_texts(std::vector<std::string>* texts) {
  uint32_t count = 0;
  if (!read_count(&count)) return false;
  texts->clear();
  for (uint32_t i = 0; i < count; ++i) {
    std::vector<char> text;
    if (!read_values(&text)) return false;
    texts->emplace_back(text.begin(), text.end());
  }
  return true;
}

template <typename T>
void write_values(const T* values, size_t size) {
  const auto count = static_cast<uint32_t>(size);
  std::fwrite(&count, sizeof(count), 1, stdout);
  if (size > 0) std::fwrite(values, sizeof(T), size, stdout);
}

inline void write_text(std::string_view text) { write_values(text.data(), text.size()); }

/// A whole file; empty when it cannot be read.
inline std::vector<uint8_t> read_file(const char* path) {
  std::vector<uint8_t> data;
  std::FILE* file = std::fopen(path, "rb");
  if (file == nullptr) return data;
  uint8_t buffer[1 << 16];
  for (size_t size; (size = std::fread(buffer, 1, sizeof(buffer), file)) > 0;) {
    data.insert(data.end(), buffer, buffer + size);
  }
  std::fclose(file);
  return data;
}

}  // namespace thimble
