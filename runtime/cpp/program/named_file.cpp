#include "program/named_file.h"

namespace thimble {

Status open_named(const std::string& path, const std::string& kind, const std::string& no_file,
                  platform::MappedFile* file) {
  std::string reason;
  using Error = platform::MappedFile::Error;
  switch (file->open(path, &reason)) {
    case Error::kNone:
      return {};
    case Error::kDirectory:
      return Status::error(path + " is a directory: name " + kind);
    case Error::kEmpty:
      return Status::error(path + " is empty: name " + kind);
    case Error::kNotAFile:
      return Status::error(path + " is not a file: " + no_file);
    default:
      return Status::error("cannot read " + path + ": " + reason + ": name " + kind);
  }
}

}  // namespace thimble
