#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

/// libFuzzer's own mutation of some bytes.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace thimble {

/// Ends the process where what must hold does not.
inline void require(bool holds) {
  if (!holds) std::abort();
}

/// A file in memory with the input, for readers that take a path.
class InputFile {
 public:
  explicit InputFile(const std::string& name)
      : path_((std::getenv("THIMBLE_FUZZ_FOLDER") ? std::getenv("THIMBLE_FUZZ_FOLDER") : ".") +
              ("/" + name)) {}
  ~InputFile() { std::remove(path_.c_str()); }

  const std::string& write(const uint8_t* data, size_t size) const {
    std::FILE* file = std::fopen(path_.c_str(), "wb");
    require(file != nullptr);
    if (size > 0) require(std::fwrite(data, size, 1, file) == 1);
    std::fclose(file);
    return path_;
  }

 private:
  const std::string path_;
};

}  // namespace thimble
