package dev.thimble;

import java.io.Closeable;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/**
 * A language model that continues text, with its own key/value cache.
 *
 * <p>A runner and its forks may be used from any thread, but only one of them at a time: a call
 * while another is at work is refused with a {@link RunnerException}, also within a callback. Only
 * {@link #cancel()} and {@link #close()} may be called at any time.
 */
public final class Runner implements Closeable {
  final Handle handle;
  final Conversations conversations = new Conversations();
  private volatile List<Token> logprobs = Collections.emptyList();

  private Runner(Handle handle) {
    this.handle = handle;
  }

  /** The library's version, such as "0.1.0". */
  public static String version() {
    return new String(Native.version(), StandardCharsets.UTF_8);
  }

  /** The same as {@link #load(String, LoadOptions)} with the options' defaults. */
  public static Runner load(String path) {
    return load(path, new LoadOptions());
  }

  /**
   * Loads a model.
   *
   * @param path of a .pte file; it must stay as it is while the model is in use
   * @throws RunnerException the file cannot be read, is damaged, is not signed as the options
   *     require, or is of another kind
   */
  public static Runner load(String path, LoadOptions options) {
    Check.notNull("options", options);
    byte[] file = Check.name("path", path);
    byte[] key = options.publicKey == null ? null : Check.name("publicKey", options.publicKey);
    int cache = options.kvCache.ordinal();
    return new Runner(
        new Handle(Native.load(file, key, options.threads, cache, options.hugePages)));
  }

  /**
   * Continues a prompt; returns when the answer has ended. A prefix that the key/value cache
   * already has is not computed again.
   *
   * @param callback receives the text in this thread
   * @throws RunnerException an option is out of range, the prompt does not fit the context, the
   *     model fails, or the runner is closed or in use
   */
  public Stats generate(String prompt, AnswerOptions options, TextCallback callback) {
    Answer answer = new Answer(prompt, options, callback);
    return call(
        runner -> {
          answer.ask(runner, /* chat= */ false);
          return new Stats(Native.stats(runner));
        });
  }

  /** The same; returns the whole text. */
  public String generate(String prompt, AnswerOptions options) {
    StringBuilder text = new StringBuilder();
    generate(prompt, options, text::append);
    return text.toString();
  }

  /**
   * Ends the answer that this runner generates, from any thread: at its next token, or within a
   * prompt after at most 256 tokens. It keeps what it has, and its stopReason is "interrupted".
   * Without an answer at work this has no effect.
   */
  public void cancel() {
    handle.interrupt();
  }

  /** The statistics of the last answer. */
  public Stats stats() {
    return call(runner -> new Stats(Native.stats(runner)));
  }

  /** The last answer's tokens, if it was asked for with {@link AnswerOptions#logprobs}. */
  public List<Token> logprobs() {
    return logprobs;
  }

  /** What is to be known about the last constraint, one sentence a line; "" if nothing. */
  public String constraintNotes() {
    return call(runner -> new String(Native.constraintNotes(runner), StandardCharsets.UTF_8));
  }

  /** The tokens of a text, without BOS; special tokens in it are plain text. */
  public int[] encode(String text) {
    byte[] bytes = Check.text("text", text);
    return call(runner -> Native.encode(runner, bytes));
  }

  /** The number of tokens in the key/value cache, prompt and answer. */
  public long length() {
    return call(Native::length);
  }

  /** Removes every token from {@code length} on; the cache must have as many. */
  public void truncate(long length) {
    perform(runner -> Native.truncate(runner, length));
  }

  /** Writes the key/value cache, and the messages of the chat that was used last, to a file. */
  public void save(String path) {
    byte[] file = Check.name("path", path);
    perform(runner -> Native.save(runner, file));
  }

  /** Resumes from a file that save() wrote with the same model; on failure nothing changes. */
  public void restore(String path) {
    byte[] file = Check.name("path", path);
    perform(runner -> Native.restore(runner, file));
  }

  /** Another runner of the same model, which shares the weights and continues from here. */
  public Runner fork() {
    return call(runner -> new Runner(handle.fork(Native.fork(runner))));
  }

  /** Checks the complete file, including the weights. */
  public void verify() {
    perform(Native::verify);
  }

  /** The names of the adapters in the file. */
  public List<String> adapters() {
    List<String> names = new ArrayList<>();
    for (byte[] name : call(Native::adapters)) names.add(new String(name, StandardCharsets.UTF_8));
    return names;
  }

  /** The name of the adapter that it runs with; "": none. */
  public String adapter() {
    return call(runner -> new String(Native.adapter(runner), StandardCharsets.UTF_8));
  }

  /** Runs with an adapter from now on; "": with none. The key/value cache is then empty. */
  public void useAdapter(String name) {
    byte[] adapter = Check.name("name", name);
    perform(runner -> Native.useAdapter(runner, adapter));
  }

  /** Verifies guesses of the next tokens: "ngram", or the path of a smaller model; "": none. */
  public void useDraft(String draft) {
    byte[] given = Check.name("draft", draft);
    perform(runner -> Native.useDraft(runner, given));
  }

  /**
   * Frees the model; its forks stay usable. An answer at work in another thread is interrupted and
   * waited for. Within a callback, the model is freed when the answer has ended.
   */
  @Override
  public void close() {
    handle.close();
  }

  /** A call of the native library. */
  interface Call<T> {
    T of(long runner);
  }

  /** The same without a result. */
  interface Action {
    void of(long runner);
  }

  <T> T call(Call<T> call) {
    long runner = handle.begin();
    try {
      return call.of(runner);
    } finally {
      handle.end();
    }
  }

  void perform(Action action) {
    call(
        runner -> {
          action.of(runner);
          return null;
        });
  }

  /** An answer of this runner: what it was asked, and who receives it. */
  final class Answer implements Receiver {
    private final byte[] text;
    private final AnswerOptions options;
    private final TextCallback callback;
    private final List<Token> tokens = new ArrayList<>();

    Answer(String text, AnswerOptions options, TextCallback callback) {
      this.text = Check.text("the text", text);
      this.options = Check.notNull("options", options);
      this.callback = Check.notNull("callback", callback);
    }

    /** Returns the number of turns that a chat dropped. */
    long ask(long runner, boolean chat) {
      logprobs = Collections.unmodifiableList(tokens);
      long settings = options.openSettings(runner);
      try {
        return Native.answer(
            runner, chat, text,
            options.seedOfAnswer(), options.constraintKind, options.constraint,
            settings, options.logprobs, this);
      } finally {
        Native.settingsFree(settings);
      }
    }

    @Override
    public void text(byte[] piece) {
      callback.onText(new String(piece, StandardCharsets.UTF_8));
    }

    @Override
    public void token(
        int token, double logprob, byte[] bytes, int[] top, double[] logprobs, byte[][] texts) {
      tokens.add(Token.of(token, logprob, bytes, top, logprobs, texts));
    }
  }
}
