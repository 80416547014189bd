#include "program/picture_files.h"

#include <cstdio>
#include <utility>

#include "picture/read_picture.h"
#include "program/named_file.h"

namespace thimble {
namespace {

constexpr char kInput[] = "-";

Result<Picture> read_input() {
  constexpr size_t kMostBytes = size_t{1} << 30, kPart = size_t{1} << 16;
  std::vector<uint8_t> bytes;
  for (size_t size = 0, count = 1; count > 0; size += count) {
    if (size > kMostBytes) return Status::error("standard input has more than 1 GiB: name a file");
    bytes.resize(size + kPart);
    count = std::fread(bytes.data() + size, 1, kPart, stdin);
    bytes.resize(size + count);
  }
  if (bytes.empty()) return Status::error("standard input is empty: pipe a picture into it");
  return read_picture(bytes.data(), bytes.size(), "standard input");
}

Status open_picture(const std::string& path, platform::MappedFile* file) {
  return open_named(path, "a picture", "name a picture, or pipe one into --image -", file);
}

Result<Picture> read_file(const std::string& path) {
  platform::MappedFile file;
  const Status status = open_picture(path, &file);
  return status.ok() ? read_picture(file.data(), file.size(), path) : status;
}

}  // namespace

Status check_pictures(const std::vector<std::string>& paths) {
  Status status;
  for (const std::string& path : paths) {
    platform::MappedFile file;
    if (status.ok() && path != kInput) status = open_picture(path, &file);
  }
  return status;
}

Result<Pictures> see_files(const Runner& runner, const std::vector<std::string>& paths,
                           Pictures pictures) {
  for (const std::string& path : paths) {
    Status status = runner.sight().status();
    if (!status.ok()) return status;
    const Result<Picture> picture = path == kInput ? read_input() : read_file(path);
    if (!picture.ok()) return picture.status();
    status = runner.see(*picture, &pictures);
    if (!status.ok()) return status;
  }
  return pictures;
}

}  // namespace thimble
