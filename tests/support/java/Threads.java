import dev.thimble.AnswerOptions;
import dev.thimble.LoadOptions;
import dev.thimble.Runner;
import dev.thimble.Stats;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;

/** Several threads: MODEL ROUNDS. */
public final class Threads {
  private static final String PROMPT = "Once upon a time";

  private final String model;
  private final int rounds;
  private final List<Throwable> failures = Collections.synchronizedList(new ArrayList<>());

  private Threads(String model, int rounds) {
    this.model = model;
    this.rounds = rounds;
  }

  public static void main(String[] arguments) throws Exception {
    Threads checks = new Threads(arguments[0], Integer.parseInt(arguments[1]));
    checks.checkFour();
    checks.checkClose();
    checks.checkInterruptedThread();
    for (Throwable failure : checks.failures) throw new AssertionError(failure);
  }

  private Runner load() {
    return Runner.load(model, new LoadOptions().threads(1));
  }

  private Thread start(String name, Expect.Work work) {
    Thread thread =
        new Thread(
            () -> {
              try {
                work.run();
              } catch (Throwable failure) {
                failures.add(failure);
              }
            },
            name);
    thread.start();
    return thread;
  }

  private static String generate(Runner runner) {
    return runner.generate(PROMPT, new AnswerOptions().maxNewTokens(40).temperature(1).seed(3));
  }

  /** Four threads, each with a runner and forks of it: each gets the text that one gets alone. */
  private void checkFour() throws Exception {
    String expected;
    try (Runner runner = load()) {
      expected = generate(runner);
    }
    List<Thread> threads = new ArrayList<>();
    for (int i = 0; i < 4; ++i) {
      threads.add(
          start(
              "thread " + i,
              () -> {
                for (int round = 0; round < rounds; ++round) {
                  try (Runner runner = load()) {
                    Expect.equal(generate(runner), expected);
                    try (Runner fork = runner.fork();
                        Runner second = fork.fork()) {
                      Expect.equal(generate(fork), expected);
                      Expect.equal(generate(second), expected);
                    }
                    Expect.equal(generate(runner), expected);
                  }
                }
              }));
    }
    for (Thread thread : threads) Expect.ends(thread);
  }

  /** An answer is interrupted by close(), which returns after it; both of two closes do. */
  private void checkClose() throws Exception {
    for (int round = 0; round < rounds; ++round) {
      Runner runner = load();
      CountDownLatch begun = new CountDownLatch(1);
      CountDownLatch closing = new CountDownLatch(1);
      boolean[] ended = {false};
      Thread generating =
          start(
              "generating",
              () -> {
                Stats stats =
                    runner.generate(
                        PROMPT,
                        new AnswerOptions(),
                        piece -> {
                          begun.countDown();
                          try {
                            closing.await();
                          } catch (InterruptedException e) {
                            throw new AssertionError(e);
                          }
                        });
                ended[0] = true;
                Expect.equal(stats.stopReason(), "interrupted");
              });
      begun.await();
      Thread closer = start("closer", runner::close);
      // It is closed to others before it waits for the answer.
      while (!isClosed(runner)) Thread.yield();
      Expect.that(!ended[0] && closer.isAlive(), "close() does not wait");
      closing.countDown();
      runner.close();
      Expect.ends(closer);
      Expect.ends(generating);
      Expect.that(ended[0], "the answer failed");
      Expect.refused("is closed", () -> generate(runner));
    }
  }

  private static boolean isClosed(Runner runner) {
    try {
      runner.length();
      throw new AssertionError("it is not in use");
    } catch (dev.thimble.RunnerException e) {
      return e.getMessage().contains("is closed");
    }
  }

  /** close() waits also in a thread that is interrupted, and leaves it so. */
  private void checkInterruptedThread() throws Exception {
    Runner runner = load();
    CountDownLatch begun = new CountDownLatch(1);
    Thread generating =
        start("generating", () -> runner.generate(PROMPT, new AnswerOptions(), piece -> begun.countDown()));
    begun.await();
    Thread.currentThread().interrupt();
    runner.close();
    Expect.that(Thread.interrupted(), "the interruption was lost");
    Expect.ends(generating);
    Expect.refused("is closed", () -> generate(runner));
  }
}
