import dev.thimble.AnswerOptions;
import dev.thimble.Engine;
import dev.thimble.EngineOptions;
import dev.thimble.Generation;
import dev.thimble.LoadOptions;
import dev.thimble.Runner;
import java.util.ArrayList;
import java.util.List;

/** Several requests at once: MODEL. */
public final class Requests {
  private static final String[] PROMPTS = {"Once upon a time", "The dog", "Lily \ud83d\ude00", ""};

  private Requests() {}

  public static void main(String[] arguments) throws Exception {
    try (Runner runner = Runner.load(arguments[0], new LoadOptions().threads(1))) {
      List<String> alone = new ArrayList<>();
      for (String prompt : PROMPTS) alone.add(runner.generate(prompt, options()));
      checkAnswers(runner, alone);
      checkRefusals(runner);
      checkCallbacks(runner, alone);
      Expect.equal(runner.generate(PROMPTS[0], options()), alone.get(0));
      checkClose(runner);
    }
    checkRunnersClose(arguments[0]);
  }

  private static AnswerOptions options() {
    return new AnswerOptions().maxNewTokens(30).temperature(1).seed(11).logprobs(2);
  }

  private static void checkAnswers(Runner runner, List<String> alone) throws Exception {
    try (Engine engine = new Engine(runner, new EngineOptions().sequences(2))) {
      List<Generation> work = new ArrayList<>();
      for (String prompt : PROMPTS) work.add(engine.submit(prompt, options()));
      for (int i = 0; i < PROMPTS.length; ++i) {
        Expect.equal(work.get(i).text(), alone.get(i));
        Expect.that(work.get(i).stats().generatedTokens() > 0, "no statistics");
        Expect.that(!work.get(i).logprobs().isEmpty(), "no tokens");
        work.get(i).cancel(); // it has ended: no effect
        AnswerOptions guessed = options().prediction(alone.get(i));
        Expect.equal(engine.submit(PROMPTS[i], guessed).text(), alone.get(i));
      }
      Expect.refused("is in use", () -> runner.generate("x", options()));
      Expect.refused("is in use", () -> new Engine(runner));
    }
  }

  private static void checkRefusals(Runner runner) throws Exception {
    Expect.refused("sequences", () -> new Engine(runner, new EngineOptions().sequences(-1)));
    Expect.refused("runner is null", () -> new Engine(null));
    Engine closed;
    try (Engine engine = new Engine(runner)) {
      closed = engine;
      Expect.refused("top_p", () -> engine.submit("x", options().topP(2)));
      Expect.refused("logprobs", () -> engine.submit("x", options().logprobs(21)));
      Expect.refused("french", () -> engine.submit("x", options(), "french", text -> {}));
      Expect.refused("prompt is null", () -> engine.submit(null, options()));
      Expect.refused("regular", () -> engine.submit("x", options().regex("(")).text());
    }
    Expect.refused("is closed", () -> closed.submit("x", options()));
  }

  private static void checkCallbacks(Runner runner, List<String> alone) throws Exception {
    try (Engine engine = new Engine(runner)) {
      Generation failing =
          engine.submit(
              PROMPTS[1],
              options(),
              text -> {
                throw new IllegalStateException("no");
              });
      Generation[] inner = {null};
      Generation outer =
          engine.submit(
              PROMPTS[0],
              options(),
              text -> {
                if (inner[0] == null) inner[0] = engine.submit(PROMPTS[1], options());
              });
      Expect.equal(outer.text(), alone.get(0));
      Expect.equal(inner[0].text(), alone.get(1));
      try {
        failing.text();
        throw new AssertionError("nothing was thrown");
      } catch (IllegalStateException e) {
        Expect.equal(e.getMessage(), "no");
      }
      Generation[] cancelled = {null};
      Object monitor = new Object();
      synchronized (monitor) {
        cancelled[0] =
            engine.submit(
                PROMPTS[0],
                options().maxNewTokens(0),
                text -> {
                  synchronized (monitor) {
                    cancelled[0].cancel();
                  }
                });
      }
      Expect.that(cancelled[0].text().length() < 100, "it went on");
      Expect.equal(cancelled[0].stats().stopReason(), "interrupted");
    }
  }

  /** Requests that are at work or wait end as interrupted. */
  private static void checkClose(Runner runner) throws Exception {
    List<Generation> work = new ArrayList<>();
    try (Engine engine = new Engine(runner, new EngineOptions().sequences(1))) {
      work.add(engine.submit(PROMPTS[0], options().maxNewTokens(0), text -> engine.close()));
      work.add(engine.submit(PROMPTS[1], options().maxNewTokens(0)));
    } catch (dev.thimble.RunnerException e) {
      Expect.that(e.getMessage().contains("is closed"), e.getMessage());
    }
    for (Generation generation : work) {
      generation.text();
      Expect.equal(generation.stats().stopReason(), "interrupted");
    }
    Expect.that(!runner.generate(PROMPTS[0], options()).isEmpty(), "the runner is not usable");
  }

  private static void checkRunnersClose(String model) throws Exception {
    Runner runner = Runner.load(model, new LoadOptions().threads(1));
    Engine engine = new Engine(runner);
    Generation generation = engine.submit(PROMPTS[0], options().maxNewTokens(0));
    runner.close();
    generation.text();
    Expect.refused("is closed", () -> engine.submit("x", options()));
    engine.close();
  }
}
