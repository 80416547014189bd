#include "runner/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace thimble {
namespace {

Status cannot_write(const std::string& path, int error) {
  return Status::error("cannot write " + path + ": " + std::strerror(error));
}

std::string parent_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// 0, or the error.
int write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

}  // namespace

Status check_writable(const std::string& path) {
  struct stat info{};
  if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return cannot_write(path, EISDIR);
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) return {};
  if (access(parent_of(path).c_str(), W_OK | X_OK) != 0) return cannot_write(path, errno);
  return {};
}

Status write_file(const std::string& path, std::initializer_list<std::string_view> pieces) {
  struct stat info{};
  // A device or a pipe is written to, never replaced; /dev/stdout, even where it leads to a file.
  const bool direct =
      path.rfind("/dev/", 0) == 0 || (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode));
  const std::string target = direct ? path : path + ".part" + std::to_string(getpid());
  const int flags = O_WRONLY | O_CLOEXEC | (direct ? O_APPEND : O_CREAT | O_TRUNC);
  const int descriptor = open(target.c_str(), flags, 0666);
  if (descriptor < 0) return cannot_write(path, errno);
  int error = 0;
  for (const std::string_view piece : pieces) {
    if (error == 0) error = write_all(descriptor, piece);
  }
  if (close(descriptor) != 0 && error == 0) error = errno;
  if (direct) return error == 0 ? Status() : cannot_write(path, error);
  if (error == 0 && std::rename(target.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return {};
  unlink(target.c_str());
  return cannot_write(path, error);
}

}  // namespace thimble
