import dev.thimble.RunnerException;

/** Assertions of the programs of tests. */
final class Expect {
  private Expect() {}

  interface Work {
    void run() throws Exception;
  }

  static void that(boolean holds, String message) {
    if (!holds) throw new AssertionError(message);
  }

  static void equal(Object found, Object expected) {
    if (!expected.equals(found)) {
      throw new AssertionError("found <" + found + ">, expected <" + expected + ">");
    }
  }

  /** The work fails with a sentence that has this part. */
  static void refused(String part, Work work) throws Exception {
    try {
      work.run();
    } catch (RunnerException e) {
      that(e.getMessage().contains(part), "found <" + e.getMessage() + ">, expected <" + part + ">");
      return;
    }
    throw new AssertionError("nothing was refused, expected <" + part + ">");
  }

  /** Waits for a thread, for a minute at most. */
  static void ends(Thread thread) throws InterruptedException {
    thread.join(60_000);
    that(!thread.isAlive(), thread.getName() + " does not end");
  }
}
