#include "program/option_values.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace thimble {
namespace {

std::string format(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.15g", value);
  return text;
}

}  // namespace

Status read_real(const std::string& name, const std::string& text, double low, double high,
                 double* value) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const bool whole = !text.empty() && *end == '\0' && std::isfinite(number);
  if (!whole || number < low || number > high) {
    return Status::error(name + " is '" + text + "', but must be a number from " + format(low) +
                         " to " + format(high));
  }
  *value = number;
  return {};
}

Status read_integer(const std::string& name, const std::string& text, uint64_t low, uint64_t high,
                    uint64_t* value) {
  errno = 0;
  char* end = nullptr;
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  const uint64_t number = digits ? std::strtoull(text.c_str(), &end, 10) : 0;
  if (!digits || errno == ERANGE || number < low || number > high) {
    return Status::error(name + " is '" + text + "', but must be a whole number from " +
                         std::to_string(low) + " to " + std::to_string(high));
  }
  *value = number;
  return {};
}

Status read_word(const std::string& name, const std::string& text,
                 const std::vector<std::string_view>& words, size_t* index) {
  const auto found = std::find(words.begin(), words.end(), text);
  if (found != words.end()) {
    *index = static_cast<size_t>(found - words.begin());
    return {};
  }
  std::string listed;
  for (auto word = words.begin(); word != words.end(); ++word) {
    if (word != words.begin()) listed += word + 1 == words.end() ? " or " : ", ";
    listed += *word;
  }
  return Status::error(name + " is '" + text + "', but must be " + listed);
}

}  // namespace thimble
