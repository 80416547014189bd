#include "bench/command.h"

#include <cstdio>
#include <sstream>

namespace thimble::bench {

Result<Command> Command::parse(const std::string& line) {
  std::istringstream words(line);
  Command command;
  words >> command.name;
  for (std::string word; words >> word;) {
    constexpr size_t kMostDigits = 15;
    if (word.size() > kMostDigits || word.find_first_not_of("0123456789") != std::string::npos) {
      return Status::error("'" + word + "' in '" + line + "' is not a whole number of at most " +
                           std::to_string(kMostDigits) + " digits");
    }
    command.numbers.push_back(std::stoll(word));
  }
  return command;
}

std::string to_json(const char* name, double value) {
  char text[96];
  std::snprintf(text, sizeof(text), "{\"%s\": %.9g}", name, value);
  return text;
}

}  // namespace thimble::bench
