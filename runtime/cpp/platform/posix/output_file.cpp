#include "platform/output_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

namespace thimble::platform {
namespace {

constexpr int kMostLinks = 40;               // as Linux follows
constexpr std::string_view kPart = ".part";  // before the number of the process that writes it

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

/// The path after following symbolic links; the file need not exist.
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

/// Removes what processes that were killed have left of a file. C's functions read the directory:
/// where memory ends, std::filesystem's iterator ends the process.
void remove_abandoned(const std::filesystem::path& target) {
  const std::string prefix = target.filename().string() + std::string(kPart);
  const std::filesystem::path parent = target.parent_path();
  const std::string directory = parent.empty() ? "." : parent.string();
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(directory.c_str()), closedir);
  while (const dirent* entry = entries == nullptr ? nullptr : readdir(entries.get())) {
    const std::string_view name = entry->d_name;
    if (name.rfind(prefix, 0) != 0) continue;
    const char* last = name.data() + name.size();
    pid_t process = 0;
    const auto [end, bad] = std::from_chars(name.data() + prefix.size(), last, process);
    if (bad != std::errc() || end != last || process <= 0) continue;
    if (kill(process, 0) != 0 && errno == ESRCH)
      unlink((directory + "/" + std::string(name)).c_str());
  }
}

/// Opens a file that is written in place. The standard streams are not opened a second time: that
/// would have a position of its own, at which what follows in a file would be overwritten.
int open_in_place(const std::string& path) {
  if (path == "/dev/stdout") return dup(STDOUT_FILENO);
  if (path == "/dev/stderr") return dup(STDERR_FILENO);
  return open(path.c_str(), O_WRONLY | O_CLOEXEC | O_APPEND);
}

}  // namespace

FileKind file_kind(const std::string& path) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0) return FileKind::kAbsent;
  return S_ISREG(info.st_mode) ? FileKind::kRegular : FileKind::kOther;
}

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

bool same_file(const std::string& a, const std::string& b) {
  std::error_code unknown;
  const std::filesystem::path first = std::filesystem::weakly_canonical(target_of(a), unknown);
  return first == std::filesystem::weakly_canonical(target_of(b), unknown) &&
         (!std::filesystem::exists(first, unknown) ||
          std::filesystem::is_regular_file(first, unknown));
}

Status write_file(const std::string& path, std::initializer_list<std::string_view> pieces) {
  struct stat info{};
  // A device or a pipe is written, never replaced; so is /dev/stdout, even if it is a file.
  const bool exists = stat(path.c_str(), &info) == 0;
  const bool direct = path.rfind("/dev/", 0) == 0 || (exists && !S_ISREG(info.st_mode));
  const std::string target = direct ? path : target_of(path).string();
  const std::string written = target + std::string(kPart) + std::to_string(getpid());
  if (!direct) remove_abandoned(target);
  const int descriptor =
      direct ? open_in_place(path)
             : open(written.c_str(), O_WRONLY | O_CLOEXEC | O_CREAT | O_TRUNC, 0666);
  if (descriptor < 0) return cannot_write(path, errno);
  int error = 0;
  if (exists && !direct && fchmod(descriptor, info.st_mode & 0777) != 0) error = errno;
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

}  // namespace thimble::platform
