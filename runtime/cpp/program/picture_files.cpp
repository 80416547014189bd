#include "program/picture_files.h"

#include <utility>

#include "picture/read_picture.h"
#include "platform/mapped_file.h"

namespace thimble {

Result<std::vector<Picture>> read_pictures(const std::vector<std::string>& paths) {
  std::vector<Picture> pictures;
  for (const std::string& path : paths) {
    platform::MappedFile file;
    std::string reason;
    using Error = platform::MappedFile::Error;
    switch (file.open(path, &reason)) {
      case Error::kNone:
        break;
      case Error::kDirectory:
        return Status::error(path + " is a directory: name a picture");
      case Error::kEmpty:
        return Status::error(path + " is empty: name a picture");
      case Error::kNotAFile:
        return Status::error(path + " is not a file: name a picture");
      default:
        return Status::error("cannot read " + path + ": " + reason + ": name a picture");
    }
    Result<Picture> picture = read_picture(file.data(), file.size(), path);
    if (!picture.ok()) return picture.status();
    pictures.push_back(std::move(*picture));
  }
  return pictures;
}

}  // namespace thimble
