package dev.thimble;

/**
 * A conversation with a model that has a chat template. A turn is a message and its answer. When
 * the context is full, the oldest turns are dropped, never the system prompt. The messages belong
 * to the runner: save(), restore() and fork() include them, and generate() does not change them.
 */
public final class Chat {
  private final Runner runner;
  private volatile long droppedTurns = 0;

  /** Continues the conversation of a runner with the system prompt that it has. */
  public Chat(Runner runner) {
    this(runner, "");
  }

  /**
   * Continues the conversation of a runner.
   *
   * @param system replaces the system prompt; "": it stays
   * @throws RunnerException the model has no chat template, or the template no system prompt
   */
  public Chat(Runner runner, String system) {
    this.runner = Check.notNull("runner", runner);
    byte[] text = Check.text("system", system);
    runner.perform(pointer -> Native.chatStart(pointer, text));
  }

  /**
   * Answers a message: see {@link Runner#generate(String, AnswerOptions, TextCallback)}. An answer
   * that was cancelled stays in the conversation as far as it came; on failure, and if the callback
   * throws, the conversation has no new turn or the text so far.
   */
  public Stats say(String message, AnswerOptions options, TextCallback callback) {
    Runner.Answer answer = runner.new Answer(message, options, callback);
    return runner.call(
        pointer -> {
          droppedTurns = 0;
          droppedTurns = answer.ask(pointer, /* chat= */ true);
          return new Stats(Native.stats(pointer));
        });
  }

  /** The same; returns the whole text. */
  public String say(String message, AnswerOptions options) {
    StringBuilder text = new StringBuilder();
    say(message, options, text::append);
    return text.toString();
  }

  /** Removes every turn; the system prompt stays. */
  public void reset() {
    runner.perform(Native::chatReset);
  }

  /** The number of turns, without dropped ones. */
  public long turns() {
    return runner.call(Native::chatTurns);
  }

  /** The number of turns that the last message dropped. */
  public long droppedTurns() {
    return droppedTurns;
  }
}
