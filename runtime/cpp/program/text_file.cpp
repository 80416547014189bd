#include "program/text_file.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <memory>

#include "tokenizer/utf8.h"

namespace thimble {
namespace {

/// Of a file that an option names: a device has no end.
constexpr size_t kMostTextBytes = size_t{16} << 20;
constexpr std::string_view kMark = "\xEF\xBB\xBF";  // as some editors begin UTF-8

Status cannot_read(const std::string& name) {
  return Status::error("cannot read " + name + ": " + std::strerror(errno));
}

Result<std::string> read(std::FILE* file, const std::string& name) {
  std::string text;
  std::array<char, 4096> part{};
  if (file != nullptr) {
    while (const size_t size = std::fread(part.data(), 1, part.size(), file)) {
      text.append(part.data(), size);
      if (text.size() > kMostTextBytes) {
        return Status::error(name + " has more than " + std::to_string(kMostTextBytes >> 20) +
                             " MiB");
      }
    }
    if (text.compare(0, kMark.size(), kMark) == 0) text.erase(0, kMark.size());
    if (std::ferror(file) == 0) return text;  // a directory can be opened, and not read
  }
  return cannot_read(name);
}

}  // namespace

Result<std::string> read_text_file(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  return read(file.get(), path);
}

Result<std::string> read_input_text() { return read(stdin, "standard input"); }

Result<bool> read_input_line(std::string* line) {
  if (std::getline(std::cin, *line)) return true;
  if (std::ferror(stdin) == 0 || errno == EINTR) return false;
  return cannot_read("standard input");
}

Status check_utf8(const std::string& name, std::string_view text) {
  const size_t length = valid_utf8_length(text);
  if (length == text.size()) return {};
  return Status::error(name + " is not UTF-8, at byte " + std::to_string(length + 1) +
                       ": convert the text, as with iconv");
}

}  // namespace thimble
