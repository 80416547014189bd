/// A model or the machine's limits, measured command by command.
///
/// usage: bench MODEL.pte -p "" [options]   with the runner's options for loading: --threads,
///                                          --kv-cache, --huge-pages, --adapter; with --etdump FILE
///                                          each measurement is recorded; see model_bench.h
///        bench --limits THREADS            see limit_bench.h
///
/// When it is ready, it describes itself in one line. Then it answers every line of standard input
/// with one line, JSON or "error: " and a sentence, until the input ends. The process stays, so
/// that a comparison can ask several models in turn.

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "bench/command.h"
#include "bench/limit_bench.h"
#include "bench/model_bench.h"
#include "model/session_handle.h"
#include "program/options.h"

namespace {

using thimble::Result;

int fail(const std::string& message, int code) {
  std::fprintf(stderr, "bench: %s\n", message.c_str());
  return code;
}

void say(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

template <typename Bench>
void serve(Bench& bench) {
  say(bench.describe());
  for (std::string line; std::getline(std::cin, line);) {
    const auto command = thimble::bench::Command::parse(line);
    const auto answer = command.ok() ? bench.run(*command) : Result<std::string>(command.status());
    say(answer.ok() ? *answer : "error: " + answer.message());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--limits") {
    const int threads = argc == 3 ? std::atoi(argv[2]) : 0;
    if (threads < 1 || threads > thimble::kMaxThreads) {
      return fail("--limits needs a number of threads from 1 to 256", 2);
    }
    thimble::bench::LimitBench bench(threads);
    serve(bench);
    return 0;
  }
  const auto options = thimble::parse_options(argc, argv);
  if (!options.ok()) return fail(options.message(), 2);
  auto bench = thimble::bench::ModelBench::load(options->model, options->load, options->adapter,
                                                options->etdump);
  if (!bench.ok()) return fail(bench.message(), 1);
  serve(**bench);
  return 0;
}
