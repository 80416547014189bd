import dev.thimble.AnswerOptions;
import dev.thimble.Chat;
import dev.thimble.LoadOptions;
import dev.thimble.Runner;
import dev.thimble.RunnerException;
import dev.thimble.Stats;
import dev.thimble.Token;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/** What an answer does with its options, callbacks and errors: MODEL FOLDER. */
public final class Answers {
  private static final String PROMPT = "Once upon a time";

  private final String model;
  private final String folder;

  private Answers(String model, String folder) {
    this.model = model;
    this.folder = folder;
  }

  public static void main(String[] arguments) throws Exception {
    Answers checks = new Answers(arguments[0], arguments[1]);
    checks.checkCancel();
    checks.checkThrowingCallbacks();
    checks.checkCallsInCallbacks();
    checks.checkCloseInCallback();
    checks.checkOptions();
    checks.checkConstraints();
    checks.checkSessions();
    checks.checkChat();
    checks.checkConversations();
    checks.checkRefusals();
    checks.checkClosed();
  }

  private Runner load() {
    return Runner.load(model, new LoadOptions().threads(1));
  }

  private static AnswerOptions tokens(long count) {
    return new AnswerOptions().maxNewTokens(count);
  }

  private void checkCancel() throws Exception {
    try (Runner runner = load()) {
      runner.cancel(); // nothing is at work: no effect
      String whole = runner.generate(PROMPT, tokens(60));
      StringBuilder text = new StringBuilder();
      Stats stats =
          runner.generate(
              PROMPT,
              tokens(60),
              piece -> {
                text.append(piece);
                runner.cancel();
              });
      Expect.equal(stats.stopReason(), "interrupted");
      Expect.that(stats.generatedTokens() < 4, "it went on: " + stats);
      Expect.that(whole.startsWith(text.toString()), "another text: " + text);
      Expect.equal(runner.generate(PROMPT, tokens(60)), whole);
      checkCancelFromAnotherThread(runner);
      Expect.equal(runner.generate(PROMPT, tokens(60)), whole);
    }
  }

  /** The callback waits until the other thread has cancelled. */
  private static void checkCancelFromAnotherThread(Runner runner) throws Exception {
    Object monitor = new Object();
    boolean[] begun = {false};
    Thread other =
        new Thread(
            () -> {
              synchronized (monitor) {
                while (!begun[0]) {
                  try {
                    monitor.wait();
                  } catch (InterruptedException e) {
                    throw new AssertionError(e);
                  }
                }
              }
              runner.cancel();
            });
    other.start();
    Stats stats =
        runner.generate(
            PROMPT,
            tokens(60),
            piece -> {
              synchronized (monitor) {
                begun[0] = true;
                monitor.notifyAll();
              }
              try {
                Expect.ends(other);
              } catch (InterruptedException e) {
                throw new AssertionError(e);
              }
            });
    Expect.equal(stats.stopReason(), "interrupted");
  }

  private void checkThrowingCallbacks() throws Exception {
    try (Runner runner = load()) {
      String whole = runner.generate(PROMPT, tokens(20));
      int[] calls = {0};
      for (Throwable thrown : Arrays.asList(new IllegalStateException("no"), new Error("no"))) {
        for (AnswerOptions options : Arrays.asList(tokens(20), tokens(20).logprobs(20))) {
          calls[0] = 0;
          try {
            runner.generate(
                PROMPT,
                options,
                piece -> {
                  ++calls[0];
                  if (thrown instanceof Error) throw (Error) thrown;
                  throw (RuntimeException) thrown;
                });
            throw new AssertionError("nothing was thrown");
          } catch (IllegalStateException | Error e) {
            Expect.that(e == thrown, "another exception: " + e);
          }
          Expect.equal(calls[0], 1);
          Expect.equal(runner.generate(PROMPT, tokens(20)), whole);
        }
      }
    }
  }

  private void checkCallsInCallbacks() throws Exception {
    try (Runner runner = load();
        Runner fork = runner.fork()) {
      int[] pieces = {0};
      runner.generate(
          PROMPT,
          tokens(5),
          piece -> {
            ++pieces[0];
            for (Runner used : Arrays.asList(runner, fork)) {
              try {
                Expect.refused("is in use", () -> used.generate("x", tokens(1)));
                Expect.refused("is in use", used::length);
                Expect.refused("is in use", () -> used.truncate(0));
                Expect.refused("is in use", used::fork);
              } catch (Exception e) {
                throw new AssertionError(e);
              }
            }
          });
      Expect.that(pieces[0] > 0, "no text");
    }
  }

  private void checkCloseInCallback() throws Exception {
    Runner runner = load();
    Stats stats = runner.generate(PROMPT, tokens(60), piece -> runner.close());
    Expect.equal(stats.stopReason(), "interrupted");
    Expect.refused("is closed", () -> runner.generate(PROMPT, tokens(1)));
    runner.close();
  }

  private void checkOptions() throws Exception {
    try (Runner runner = load()) {
      AnswerOptions sampled = tokens(20).temperature(1).seed(5).topK(40).topP(0.9).minP(0.01);
      String text = runner.generate(PROMPT, sampled);
      Expect.equal(runner.generate(PROMPT, sampled), text);
      Expect.that(!runner.generate(PROMPT, tokens(20)).equals(text), "sampling has no effect");
      String greedy = runner.generate(PROMPT, tokens(40));
      String stop = greedy.substring(20, 24);
      String stopped = runner.generate(PROMPT, tokens(40).stop("nowhere \0 \ud83d", stop));
      Expect.equal(stopped, greedy.substring(0, greedy.indexOf(stop)));
      Expect.equal(runner.stats().stopReason(), "stop");
      Expect.that(
          !runner.generate(PROMPT, tokens(40).repetitionPenalty(2)).equals(greedy), "no penalty");
      checkTokens(runner, greedy);
      int first = runner.logprobs().get(0).id();
      runner.generate(PROMPT, tokens(3).logprobs(1).logitBias(first, -100));
      Expect.that(runner.logprobs().get(0).id() != first, "the token is not banned");
      runner.useDraft("ngram");
      Expect.equal(runner.generate(PROMPT, tokens(40)), greedy);
      Expect.equal(runner.adapters(), Collections.emptyList());
      Expect.equal(runner.adapter(), "");
      Expect.that(runner.encode("a\ud83d\ude00\0b").length > 2, "too few tokens");
      runner.verify();
    }
  }

  private static void checkTokens(Runner runner, String greedy) {
    runner.generate(PROMPT, tokens(40).logprobs(20));
    StringBuilder text = new StringBuilder();
    for (Token token : runner.logprobs()) {
      Expect.equal(token.top().size(), 20);
      Expect.equal(token.top().get(0).id(), token.id());
      Expect.equal(token.top().get(0).logprob(), token.logprob());
      Expect.that(token.logprob() <= 0, "the logarithm of a probability above 1");
      text.append(token.text());
    }
    Expect.equal(text.toString(), greedy);
  }

  private void checkConstraints() throws Exception {
    try (Runner runner = load()) {
      List<String> choice = Arrays.asList("yes \"\\\n\u0001", "no \ud83d\ude00");
      String chosen = runner.generate(PROMPT, tokens(50).choice(choice));
      Expect.that(choice.contains(chosen), "not of the choice: " + chosen);
      Expect.equal(runner.stats().stopReason(), "complete");
      Expect.equal(runner.generate(PROMPT, tokens(50).jsonSchema("{\"const\": [1]}")), "[1]");
      Expect.that(
          runner.generate(PROMPT, tokens(50).regex("[0-9]{3}")).matches("[0-9]{3}"), "no number");
      Expect.equal(runner.generate(PROMPT, tokens(50).grammar("root ::= \"a\" \"b\"")), "ab");
      Stats stats = runner.generate(PROMPT, tokens(1).regex("[0-9]{30}"), piece -> {});
      Expect.that(stats.incomplete(), "it is not complete");
      String unsupported = "{\"contains\": {}}";
      Expect.refused(
          "contains", () -> runner.generate(PROMPT, tokens(1).jsonSchema(unsupported)));
      Expect.refused("regular", () -> runner.generate(PROMPT, tokens(1).regex("(")));
      Expect.that(runner.generate(PROMPT, tokens(9)).length() > 2, "the constraint stays");
      Expect.equal(runner.constraintNotes(), "");
    }
  }

  private void checkSessions() throws Exception {
    String path = folder + "/s\u00e4ved \ud83d\ude00.session";
    try (Runner runner = load()) {
      String whole = runner.generate(PROMPT, tokens(30));
      long length = runner.length();
      Expect.that(length > 30, "too short");
      runner.save(path);
      try (Runner other = load()) {
        other.restore(path);
        Expect.equal(other.length(), length);
        Expect.equal(other.generate(PROMPT, tokens(30)), whole);
        Expect.that(other.stats().cachedTokens() > 0, "nothing was restored");
        other.truncate(2);
        Expect.equal(other.length(), 2L);
        Expect.refused("cannot truncate to 3", () -> other.truncate(3));
      }
      Runner fork = runner.fork();
      runner.close();
      Expect.equal(fork.generate(PROMPT, tokens(30)), whole);
      fork.close();
    }
  }

  private void checkConversations() throws Exception {
    AnswerOptions options = tokens(20);
    String[] lines = {"Tell me a story.", "Go on.", "Who was it?"};
    String[] alone = new String[3];
    try (Runner runner = load()) {
      Chat chat = new Chat(runner, "Be nice.");
      for (int i = 0; i < 3; ++i) alone[i] = chat.say(lines[i], options);
    }
    try (Runner runner = load()) {
      Chat first = new Chat(runner, "Be nice.");
      Chat second = new Chat(runner);
      Expect.equal(first.say(lines[0], options), alone[0]);
      String other = second.say(lines[0], options);
      Expect.that(!other.equals(alone[0]), "it has a system prompt");
      Expect.equal(first.say(lines[1], options), alone[1]);
      second.reset();
      Expect.equal(second.say(lines[0], options), other);
      Expect.equal(first.turns(), 2L); // which is not to use it
      runner.save(folder + "/second.session");
      Expect.equal(first.say(lines[2], options), alone[2]);
      for (int i = 0; i < 20; ++i) {
        new Chat(runner).say(lines[0], tokens(1));
        System.gc();
      }
      Expect.equal(first.turns(), 3L);
      Expect.equal(second.turns(), 1L);
      runner.restore(folder + "/second.session");
      Expect.equal(new Chat(runner).turns(), 1L);
      Chat kept = new Chat(runner, "Be nice.");
      kept.reset();
      kept.add(lines[0], alone[0]);
      Expect.equal(kept.turns(), 1L);
      Expect.equal(kept.say(lines[1], options), alone[1]);
      Expect.refused("answer is null", () -> kept.add("a", null));
    }
  }

  private void checkChat() throws Exception {
    try (Runner runner = load()) {
      Chat chat = new Chat(runner);
      String first = chat.say("Tell me a story.", tokens(20));
      Expect.that(!first.isEmpty(), "no answer");
      Expect.equal(chat.turns(), 1L);
      Expect.that(!chat.say("And \0 \ud800?", tokens(20)).isEmpty(), "no answer");
      try {
        chat.say(
            "More",
            tokens(20),
            piece -> {
              throw new IllegalStateException("no");
            });
        throw new AssertionError("nothing was thrown");
      } catch (IllegalStateException e) {
        Expect.equal(e.getMessage(), "no");
      }
      chat.reset();
      Expect.equal(chat.turns(), 0L);
      Expect.equal(chat.say("Tell me a story.", tokens(20)), first);
      for (int i = 0; i < 40 && chat.droppedTurns() == 0; ++i) chat.say("Go on.", tokens(30));
      Expect.that(chat.droppedTurns() > 0, "the context is never full");
    }
  }

  private void checkRefusals() throws Exception {
    String[] paths = {"", "/nowhere/model.pte", folder, "/dev/null", model + "\0.pte"};
    for (String path : paths) Expect.refused("", () -> Runner.load(path));
    Expect.refused("threads is -1", () -> Runner.load(model, new LoadOptions().threads(-1)));
    Expect.refused(
        "the public key no.pem cannot be read",
        () -> Runner.load(model, new LoadOptions().requireSignature("no.pem")));
    Expect.refused("path is null", () -> Runner.load(null));
    Expect.refused("options is null", () -> Runner.load(model, null));
    try (Runner runner = load()) {
      Expect.refused("callback is null", () -> runner.generate("x", tokens(1), null));
      Expect.refused("the text is null", () -> runner.generate(null, tokens(1)));
      Expect.refused("options is null", () -> runner.generate("x", null));
      Expect.refused("max_new_tokens is -1", () -> runner.generate("x", tokens(-1)));
      Expect.refused("max_new_tokens is ", () -> runner.generate("x", tokens(Long.MAX_VALUE)));
      List<AnswerOptions> wrong = new ArrayList<>();
      wrong.add(tokens(1).temperature(Double.NaN));
      wrong.add(tokens(1).temperature(1e30));
      wrong.add(tokens(1).topK(Integer.MIN_VALUE));
      wrong.add(tokens(1).topP(-1));
      wrong.add(tokens(1).minP(Double.POSITIVE_INFINITY));
      wrong.add(tokens(1).presencePenalty(3));
      wrong.add(tokens(1).frequencyPenalty(Double.NaN));
      wrong.add(tokens(1).repetitionPenalty(0));
      wrong.add(tokens(1).logitBias(-1, 0));
      wrong.add(tokens(1).logitBias(1 << 30, 0));
      wrong.add(tokens(1).logitBias(0, 101));
      wrong.add(tokens(1).logprobs(21));
      wrong.add(tokens(1).stop(""));
      wrong.add(tokens(1).choice(Collections.<String>emptyList()));
      for (AnswerOptions options : wrong) {
        Expect.refused("", () -> runner.generate("x", options));
        Expect.refused("", () -> new Chat(runner).say("x", options));
      }
      Expect.refused("logprobs is -1", () -> tokens(1).logprobs(-1));
      Expect.refused("a stop text is null", () -> tokens(1).stop("a", null));
      char[] many = new char[3_000_000];
      Arrays.fill(many, '\u20ac');
      Expect.refused("context", () -> runner.generate(new String(many), tokens(1)));
      for (long length : new long[] {-1, 1L << 40, Long.MIN_VALUE}) {
        Expect.refused("length is", () -> runner.truncate(length));
      }
      Expect.refused("", () -> runner.restore(model));
      Expect.refused("", () -> runner.save(folder + "/no/such/folder"));
      Expect.refused("", () -> runner.useAdapter("french"));
      Expect.refused("", () -> runner.useDraft("/nowhere"));
      Expect.refused("name has a zero character", () -> runner.useAdapter("a\0"));
      Expect.that(!runner.generate(PROMPT, tokens(3)).isEmpty(), "it is not usable");
      try {
        runner.stats().number("model");
        throw new AssertionError("model is a text");
      } catch (RunnerException e) {
        Expect.that(e.getMessage().contains("no Double model"), e.getMessage());
      }
    }
  }

  private void checkClosed() throws Exception {
    Runner runner = load();
    Chat chat = new Chat(runner);
    runner.close();
    runner.close();
    runner.cancel();
    Expect.refused("is closed", () -> runner.generate(PROMPT, tokens(1)));
    Expect.refused("is closed", runner::stats);
    Expect.refused("is closed", runner::fork);
    Expect.refused("is closed", () -> chat.say("x", tokens(1)));
    Expect.refused("is closed", () -> runner.save(folder + "/closed"));
  }
}
