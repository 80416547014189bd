#include "runner/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

namespace thimble {
namespace {

constexpr int kMostLinks = 40;  // as Linux follows

Status cannot_write(const std::string& path, int error) {
  return Status::error("cannot write " + path + ": " + std::strerror(error));
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
  const bool exists = stat(path.c_str(), &info) == 0;
  if (!exists && errno != ENOENT) return cannot_write(path, errno);
  if (exists && S_ISDIR(info.st_mode)) return cannot_write(path, EISDIR);
  if (exists && !S_ISREG(info.st_mode)) return {};
  const std::filesystem::path parent = target_of(path).parent_path();
  const char* directory = parent.empty() ? "." : parent.c_str();
  if (access(directory, W_OK | X_OK) != 0) return cannot_write(path, errno);
  return {};
}

std::filesystem::path target_of(const std::filesystem::path& path) {
  std::filesystem::path target = path;
  std::error_code error;
  for (int i = 0; i < kMostLinks; ++i) {
    const std::filesystem::path link = std::filesystem::read_symlink(target, error);
    if (error) break;
    target = target.parent_path() / link;
  }
  return target;
}

bool same_file(const std::string& a, const std::string& b) {
  std::error_code unknown;
  const std::filesystem::path first = std::filesystem::weakly_canonical(target_of(a), unknown);
  return first == std::filesystem::weakly_canonical(target_of(b), unknown) &&
         (!std::filesystem::exists(first, unknown) ||
          std::filesystem::is_regular_file(first, unknown));
}

Status check_not_model(const std::string& path, const std::string& model) {
  if (!same_file(path, model)) return {};
  return Status::error(path + " is the model's own file: name another file");
}

Status write_file(const std::string& path, std::initializer_list<std::string_view> pieces) {
  struct stat info{};
  // A device or a pipe is written, never replaced; so is /dev/stdout, even if it is a file.
  const bool direct =
      path.rfind("/dev/", 0) == 0 || (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode));
  const std::string target = direct ? path : target_of(path).string();
  const std::string written = direct ? target : target + ".part" + std::to_string(getpid());
  const int flags = O_WRONLY | O_CLOEXEC | (direct ? O_APPEND : O_CREAT | O_TRUNC);
  const int descriptor = open(written.c_str(), flags, 0666);
  if (descriptor < 0) return cannot_write(path, errno);
  int error = 0;
  for (const std::string_view piece : pieces) {
    if (error == 0) error = write_all(descriptor, piece);
  }
  if (close(descriptor) != 0 && error == 0) error = errno;
  if (direct) return error == 0 ? Status() : cannot_write(path, error);
  if (error == 0 && std::rename(written.c_str(), target.c_str()) != 0) error = errno;
  if (error == 0) return {};
  unlink(written.c_str());
  return cannot_write(path, error);
}

}  // namespace thimble
