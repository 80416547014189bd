#include "program/picture_files.h"

#include <utility>

#include "picture/read_picture.h"
#include "program/named_file.h"

namespace thimble {

Status open_picture(const std::string& path, platform::MappedFile* file) {
  return open_named(path, "a picture", "name a picture", file);
}

Result<Pictures> see_files(const Runner& runner, const std::vector<std::string>& paths,
                           Pictures pictures) {
  for (const std::string& path : paths) {
    platform::MappedFile file;
    Status status = runner.sight().status();
    if (status.ok()) status = open_picture(path, &file);
    if (!status.ok()) return status;
    const Result<Picture> picture = read_picture(file.data(), file.size(), path);
    if (!picture.ok()) return picture.status();
    status = runner.see(*picture, &pictures);
    if (!status.ok()) return status;
  }
  return pictures;
}

}  // namespace thimble
