#include "program/chat_lines.h"

#include <cstdio>
#include <string>
#include <string_view>

#include "core/longer_context.h"
#include "platform/streams.h"
#include "program/interrupt.h"
#include "program/picture_files.h"
#include "program/standard_output.h"
#include "program/text_file.h"
#include "runner/chat.h"

namespace thimble {
namespace {

constexpr int kFailed = 1;
constexpr std::string_view kSpace = " \t\r";
constexpr const char* kSeeing =
    "  /image FILE  a picture before the next message; several are in order\n";
constexpr const char* kCommands =
    "  /reset  start a new conversation; the system prompt stays\n"
    "  /help   print this\n"
    "  /exit   end the chat, like Ctrl-D\n"
    "A line that starts with // is a message that starts with /.\n";

void say(const std::string& text) { std::fprintf(stderr, "runner: %s\n", text.c_str()); }

std::string count_turns(size_t count) {
  return std::to_string(count) + (count == 1 ? " turn" : " turns");
}

class LineChat {
 public:
  LineChat(Runner& runner, Chat chat, const Options& options, const GenerateOptions& generate)
      : runner_(runner), chat_(chat), generate_(generate) {
    if (options.session.empty() || runner.cached().empty()) return;
    say(runner.turns() > 0 ? "resuming the conversation in " + options.session + " (" +
                                 count_turns(runner.turns()) + ")"
                           : options.session + " has no conversation: a new one starts");
  }

  /// Runs one turn; fails if the message was refused or the model failed.
  Result<int> take_only_turn(const std::string& message, const Pictures& pictures) {
    const Result<Chat::Question> question = chat_.ask(message, generate_.max_new_tokens, pictures);
    if (!question.ok()) return question.status();
    const Status status = answer(*question);
    if (!status.ok()) return status;
    return lost_output_ ? kFailed : code_of(runner_.stats());
  }

  /// Runs turns and commands until the input ends.
  Result<int> take_lines() {
    const bool terminal = platform::input_is_terminal();
    if (terminal) say("each line is a message; /help lists the commands");
    int code = 0;
    std::string line;
    while (!left_ && !lost_output_ && ended() == 0) {
      if (terminal) std::fprintf(stderr, "> ");
      const Result<bool> read = read_input_line(&line);
      if (!read.ok() && ended() == 0) return read.status();
      if (!read.ok() || !*read) {
        if (terminal) std::fprintf(stderr, "\n");
        break;
      }
      if (line.empty()) continue;
      const Result<bool> taken = take(line);
      if (!taken.ok()) return taken.status();
      if (!*taken && !terminal) code = kFailed;
      serve_interrupt();
    }
    return lost_output_ ? kFailed : code;
  }

 private:
  /// Returns whether the line was accepted; an error if the chat cannot continue.
  Result<bool> take(const std::string& line) {
    if (const Status status = check_utf8("the message", line); !status.ok()) {
      say(status.message());
      return false;
    }
    const bool slash = line[0] == '/', two = slash && line.size() > 1 && line[1] == '/';
    if (slash && !two) return obey(line);
    const Result<Chat::Question> question =
        chat_.ask(two ? line.substr(1) : line, generate_.max_new_tokens, pictures_);
    if (!question.ok()) {
      say(question.message());
      return false;
    }
    pictures_.clear();
    const Status status = answer(*question);
    if (!status.ok()) return status;
    return true;
  }

  Result<bool> obey(const std::string& line) {
    const std::string command = line.substr(0, line.find_last_not_of(kSpace) + 1);
    const size_t space = command.find_first_of(kSpace);
    if (command.substr(0, space) == "/image") {
      if (space != std::string::npos) {
        return add_picture(command.substr(command.find_first_not_of(kSpace, space)));
      }
      say("the command /image needs a file: write /image FILE");
      return false;
    }
    if (command == "/exit") {
      left_ = true;
    } else if (command == "/help") {
      if (runner_.sight().ok()) std::fputs(kSeeing, stderr);
      std::fputs(kCommands, stderr);
    } else if (command == "/reset") {
      const Status status = chat_.reset();
      if (!status.ok()) return status;
      told_of_drop_ = false;
      pictures_.clear();
      say("a new conversation starts");
    } else {
      refuse(command);
      return false;
    }
    return true;
  }

  bool add_picture(const std::string& path) {
    if (path == "-") {
      say("standard input has the lines of the chat: write /image FILE");
      return false;
    }
    const Result<Pictures> pictures = see_files(runner_, {path}, pictures_);
    if (!pictures.ok()) {
      say(pictures.message());
      return false;
    }
    pictures_ = *pictures;
    return true;
  }

  static void refuse(const std::string& line) {
    const std::string word = line.substr(0, line.find_first_of(kSpace));
    if (word == "/reset" || word == "/help" || word == "/exit") {
      say("the command " + word + " takes no argument: write it alone on its line");
    } else {
      say("'" + word +
          "' is not a command: /help lists the commands, and a message that starts with / is sent "
          "by a line that starts with //");
    }
  }

  Status answer(const Chat::Question& question) {
    if (question.dropped_turns > 0 && !told_of_drop_) {
      told_of_drop_ = true;
      say("the conversation no longer fits the context (" +
          std::to_string(runner_.model().program().max_context_len()) +
          " tokens): the oldest turns are dropped as needed, " +
          count_turns(question.dropped_turns) + " now; to keep more, " + export_longer());
    }
    StandardOutput output;
    const Status status = chat_.answer(question, generate_, output.callback());
    if (!status.ok()) return status;
    output.write("\n");
    if (output.status().ok()) {
      explain_end(runner_, generate_);
    } else {
      say_error(output.status());
      lost_output_ = true;
    }
    return {};
  }

  Runner& runner_;
  Chat chat_;
  const GenerateOptions& generate_;
  Pictures pictures_;  ///< of the next message
  bool told_of_drop_ = false;
  bool left_ = false;
  bool lost_output_ = false;
};

}  // namespace

Result<int> converse(Runner& runner, const Options& options, const GenerateOptions& generate) {
  const Result<Chat> started = Chat::start(runner, options.system);
  if (!started.ok()) return started.status();
  LineChat chat(runner, *started, options, generate);
  if (!options.prompt) return chat.take_lines();
  const Result<Pictures> pictures = see_files(runner, options.images);
  if (!pictures.ok()) return pictures.status();
  return chat.take_only_turn(*options.prompt, *pictures);
}

}  // namespace thimble
