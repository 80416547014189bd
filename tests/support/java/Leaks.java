import dev.thimble.AnswerOptions;
import dev.thimble.LoadOptions;
import dev.thimble.Runner;
import java.nio.file.Files;
import java.nio.file.Paths;

/**
 * Loads, generates, forks and frees, again and again: MODEL DAMAGED WARM_UP LOADS. Prints the
 * resident kilobytes after the first and after all.
 */
public final class Leaks {
  private Leaks() {}

  public static void main(String[] arguments) throws Exception {
    int warmUp = Integer.parseInt(arguments[2]);
    int loads = Integer.parseInt(arguments[3]);
    for (int i = 0; i < warmUp; ++i) use(arguments[0], arguments[1]);
    System.gc();
    System.out.println(residentKilobytes());
    for (int i = 0; i < loads; ++i) use(arguments[0], arguments[1]);
    System.gc();
    System.out.println(residentKilobytes());
  }

  private static void use(String model, String damaged) throws Exception {
    Expect.refused("", () -> Runner.load(damaged));
    try (Runner runner = Runner.load(model, new LoadOptions().threads(1))) {
      AnswerOptions options =
          new AnswerOptions().maxNewTokens(3).logprobs(2).stop("never").regex("[a-z ]*");
      runner.generate("Once", options);
      Expect.refused("top_k", () -> runner.generate("Once", new AnswerOptions().topK(-1)));
      try (Runner fork = runner.fork()) {
        fork.generate("Once", options);
      }
      try {
        runner.generate(
            "Once",
            options,
            piece -> {
              throw new IllegalStateException("no");
            });
      } catch (IllegalStateException e) {
        continueAfter(e);
      }
    }
  }

  private static void continueAfter(IllegalStateException e) {
    Expect.equal(e.getMessage(), "no");
  }

  private static long residentKilobytes() throws Exception {
    for (String line : Files.readAllLines(Paths.get("/proc/self/status"))) {
      if (line.startsWith("VmRSS:")) return Long.parseLong(line.replaceAll("[^0-9]", ""));
    }
    throw new AssertionError("/proc/self/status has no VmRSS");
  }
}
