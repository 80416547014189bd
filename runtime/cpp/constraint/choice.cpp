#include "constraint/choice.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "constraint/json.h"

namespace thimble {

Result<Grammar::Node> parse_choice(std::string_view text, Grammar* grammar) {
  const Result<Json> json = parse_json(text);
  if (!json.ok()) return Status::error("the choice cannot be read: " + json.message());
  std::vector<std::string> texts;
  for (const Json& value : json->values) {
    if (value.is(Json::Kind::kString)) texts.push_back(value.text);
  }
  if (!json->is(Json::Kind::kArray) || texts.empty() || texts.size() != json->values.size()) {
    return Status::error("the choice must be a JSON array of one string or more");
  }
  if (std::find(texts.begin(), texts.end(), "") != texts.end()) {
    return Status::error("the choice has an empty text: leave it out");
  }
  return grammar->literals(std::move(texts));
}

}  // namespace thimble
