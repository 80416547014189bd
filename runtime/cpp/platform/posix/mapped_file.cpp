#include "platform/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "platform/pages.h"

namespace thimble::platform {
namespace {

/// The mapping of an open file; MAP_FAILED and errno if there is none.
void* map(int descriptor, off_t file_size) {
  const auto size = static_cast<size_t>(file_size);
  if (static_cast<off_t>(size) != file_size) {  // on 32 bits
    errno = EFBIG;
    return MAP_FAILED;
  }
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
#if defined(MADV_HUGEPAGE)
  // If the page cache has large pages, they are mapped as such: fewer TLB misses in decoding.
  if (data != MAP_FAILED) (void)madvise(data, size, MADV_HUGEPAGE);
#endif
  return data;
}

}  // namespace

MappedFile::Error MappedFile::open(const std::string& path, std::string* reason) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe too
  if (descriptor < 0) {
    *reason = std::strerror(errno);
    return Error::kCannotOpen;
  }
  struct stat info{};
  const bool regular = fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode);
  void* data = regular && info.st_size > 0 ? map(descriptor, info.st_size) : MAP_FAILED;
  const int map_error = errno;
  close(descriptor);
  if (!regular) return S_ISDIR(info.st_mode) ? Error::kDirectory : Error::kNotAFile;
  if (info.st_size == 0) return Error::kEmpty;
  if (data == MAP_FAILED) {
    *reason = std::strerror(map_error);
    return Error::kCannotMap;
  }
  data_ = static_cast<const uint8_t*>(data);
  size_ = static_cast<size_t>(info.st_size);
  return Error::kNone;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<uint8_t*>(data_), size_);
}

void MappedFile::release(size_t offset, size_t size) const {
  if (data_ == nullptr) return;
  const size_t page = page_size();
  const size_t begin = (offset + page - 1) / page * page;
  const size_t end = (offset + size) / page * page;
  if (begin < end) madvise(const_cast<uint8_t*>(data_ + begin), end - begin, MADV_DONTNEED);
}

}  // namespace thimble::platform
