#include "program/picture_files.h"

#include <utility>

#include "picture/read_picture.h"
#include "program/named_file.h"

namespace thimble {

Result<std::vector<Picture>> read_pictures(const std::vector<std::string>& paths) {
  std::vector<Picture> pictures;
  for (const std::string& path : paths) {
    platform::MappedFile file;
    const Status status = open_named(path, "a picture", "name a picture", &file);
    if (!status.ok()) return status;
    Result<Picture> picture = read_picture(file.data(), file.size(), path);
    if (!picture.ok()) return picture.status();
    pictures.push_back(std::move(*picture));
  }
  return pictures;
}

}  // namespace thimble
