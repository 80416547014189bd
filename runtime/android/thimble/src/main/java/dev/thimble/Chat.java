package dev.thimble;

/**
 * A conversation with a model that has a chat template. A turn is a message and its answer. When
 * the context is full, the oldest turns are dropped, never the system prompt. Each chat of a runner
 * is a conversation of its own; generate() changes none. The runner's save() and fork() include the
 * messages of the chat that was used last, and restore() replaces them.
 */
public final class Chat {
  private final Runner runner;
  private final long number;
  private volatile long droppedTurns = 0;

  /** Begins a conversation as {@link #Chat(Runner, String)} with "". */
  public Chat(Runner runner) {
    this(runner, "");
  }

  /**
   * Begins a conversation, with the messages that the runner was last restored or forked with, if
   * any.
   *
   * @param system the system prompt; "": that of these messages
   * @throws RunnerException the model has no chat template, or the template no system prompt
   */
  public Chat(Runner runner, String system) {
    this.runner = Check.notNull("runner", runner);
    byte[] text = Check.text("system", system);
    number = runner.call(pointer -> runner.conversations.begin(pointer, this, text));
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
          Native.chatChoose(pointer, number);
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

  /**
   * Adds a turn that was had before, such as one that an app kept. Nothing is computed before the
   * next message.
   */
  public void add(String message, String answer) {
    byte[] asked = Check.text("message", message);
    byte[] said = Check.text("answer", answer);
    runner.perform(
        pointer -> {
          Native.chatChoose(pointer, number);
          Native.chatAdd(pointer, asked, said);
        });
  }

  /** Removes every turn; the system prompt stays. */
  public void reset() {
    runner.perform(
        pointer -> {
          Native.chatChoose(pointer, number);
          Native.chatReset(pointer);
        });
  }

  /** The number of turns, without dropped ones. */
  public long turns() {
    return runner.call(pointer -> Native.chatTurns(pointer, number));
  }

  /** The number of turns that the last message dropped. */
  public long droppedTurns() {
    return droppedTurns;
  }
}
