// WebAssembly has memory, no files.

#include "platform/mapped_file.h"
#include "platform/output_file.h"

namespace thimble::platform {

MappedFile::Error MappedFile::open(const std::string&, std::string* reason) {
  *reason = "WebAssembly has no files";
  return Error::kCannotOpen;
}

MappedFile::~MappedFile() = default;

void MappedFile::release(size_t, size_t) const {}

FileKind file_kind(const std::string&) { return FileKind::kAbsent; }

bool same_file(const std::string&, const std::string&) { return false; }

Status check_writable(const std::string& path) {
  return Status::error("cannot write " + path + ": WebAssembly has no files");
}

Status write_file(const std::string& path, std::initializer_list<std::string_view>) {
  return check_writable(path);
}

}  // namespace thimble::platform
