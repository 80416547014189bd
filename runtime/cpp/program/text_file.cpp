#include "program/text_file.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace thimble {
namespace {

/// Of a file that an option names: a device has no end.
constexpr size_t kMostTextBytes = size_t{16} << 20;

}  // namespace

Result<std::string> read_text_file(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  std::string text;
  std::array<char, 4096> part{};
  if (file != nullptr) {
    while (const size_t size = std::fread(part.data(), 1, part.size(), file.get())) {
      text.append(part.data(), size);
      if (text.size() > kMostTextBytes) {
        return Status::error(path + " has more than " + std::to_string(kMostTextBytes >> 20) +
                             " MiB");
      }
    }
    if (std::ferror(file.get()) == 0) return text;  // a directory can be opened, and not read
  }
  return Status::error("cannot read " + path + ": " + std::strerror(errno));
}

}  // namespace thimble
