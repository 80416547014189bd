#include "answer/answer_numbers.h"
#include "program/options.h"

namespace thimble {
namespace {

constexpr const char* kFirst =
    "Usage: runner MODEL.pte -p TEXT [options]\n"
    "       runner MODEL.pte --chat [options]\n"
    "       runner MODEL.pte --embed [options] < TEXTS\n"
    "       runner MODEL.pte --audio FILE.wav [options]\n"
    "       runner MODULE.pte --input FILE.npy --output FILE.npy [options]\n"
    "\n"
    "Runs a language model, or any other module, that python -m exporter wrote. Text goes to\n"
    "standard output, everything else to standard error.\n"
    "\n"
    "  -p, --prompt TEXT    the text to continue; if empty, the model begins a text\n"
    "  -f, --prompt-file FILE\n"
    "                       the same from a file, or - for standard input\n";

constexpr const char* kLast =
    "  --logit-bias ID=VALUE\n"
    "                       -100 to 100: added to the logit of a token; one option for each\n"
    "  --stop TEXT          the answer ends where the text would come; one option for each\n"
    "  --special-text       print the special tokens that the model writes\n"
    "  --logprobs N         0 to 20: --json's file has the log-probability of each token of "
    "the\n"
    "                       answers, and of the N most likely in its place\n"
    "  --seed S             makes sampling repeatable (default: a new seed for every run)\n"
    "  --chat               chat: each line is a message; with -p, only that message. The\n"
    "                       lines /reset (start a new conversation), /help and /exit are\n"
    "                       commands; a line that starts with // is a message that starts\n"
    "                       with /. When the context is full, the oldest turns are dropped\n"
    "  --embed              print a line of numbers for each line of standard input, or for\n"
    "                       the text of -p (needs a model of embeddings)\n"
    "  --prompt-name NAME   the text that the model puts before those of --embed, by its name\n"
    "                       (default: set in the file; '': none)\n"
    "  --audio FILE         print the text of a sound: a WAV file, or - for standard input; one\n"
    "                       option for each (needs a model that hears)\n"
    "  --language CODE      of --audio, such as de (default: the model tells)\n"
    "  --task transcribe|translate\n"
    "                       of --audio: translate into English (default: transcribe)\n"
    "  --format text|json   of --audio: the text alone, or a line of JSON for each sound, with "
    "its\n"
    "                       language, and the times, text and tokens of each window\n"
    "  --system TEXT        the system prompt of --chat (default: the session's)\n"
    "  --json-schema TEXT, --json-schema-file FILE\n"
    "                       the answer is JSON that this schema describes, without spaces; "
    "its\n"
    "                       properties come in the schema's order\n"
    "  --json-object        the answer is a JSON object\n"
    "  --regex TEXT         a regular expression matches the complete answer\n"
    "  --choice TEXT        the answer is one of the texts; one option for each\n"
    "  --grammar TEXT, --grammar-file FILE\n"
    "                       the answer is a text of this GBNF grammar, llama.cpp's notation\n"
    "  --schema-unsupported refuse|relax\n"
    "                       what is not supported of a schema is an error (default), or left\n"
    "                       out, and told on standard error and by --json\n"
    "  --input [NAME=]FILE  an input of a program of tensors: a .npy file of numpy's; one option\n"
    "                       for each, by name or in order\n"
    "  --output [NAME=]FILE where to write an output, as a .npy file; the same\n"
    "  --method NAME        which method of a program of tensors runs (default: forward, or the\n"
    "                       first one)\n"
    "  --threads N          1 to 256 (default: automatic)\n"
    "  --kv-cache TYPE      default (set in the file), float16, float32 or int8\n"
    "  --huge-pages         copy the weights into huge pages, if the system has them: faster\n"
    "  --session FILE       resume from the key/value cache in FILE, if it exists, and save\n"
    "                       the new one to it. A prefix that prompts share is computed only\n"
    "                       once. With --chat, the conversation is resumed too\n"
    "  --adapter NAME       run with an adapter that the model was exported with\n"
    "  --draft ngram|FILE   guess the next tokens, from repetitions in the text or with a\n"
    "                       smaller model of the same tokenizer. One call of the model\n"
    "                       verifies several: the same text, sooner where guesses are right\n"
    "                       (these five options need a model exported with --delegate cpu)\n"
    "  --json FILE          write the statistics as JSON\n"
    "  --etdump FILE        record ExecuTorch's profile of the run: the first 256 calls of\n"
    "                       the model, up to 32 MiB, and the first 1024 bytes of the prompt.\n"
    "                       During a run, the signal SIGUSR1 starts a recording; the next\n"
    "                       one ends it and writes FILE, then FILE.2, ...\n"
    "                       (default: runner-PID.etdp, ...)\n"
    "  --quiet              no statistics at the end; notes and errors are still printed\n"
    "  --verify             first check the complete file, including the weights\n"
    "  --version            print the versions of the runner, ExecuTorch and the formats\n"
    "  -h, --help           print this help\n"
    "  --                   end of the options: MODEL.pte may follow and begin with -\n";

}  // namespace

std::string usage() {
  std::string text = kFirst;
  for (const AnswerNumber& number : answer_numbers()) text += number.usage;
  return text + kLast;
}

}  // namespace thimble
