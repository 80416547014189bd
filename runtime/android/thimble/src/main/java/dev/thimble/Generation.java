package dev.thimble;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** A request of an {@link Engine}. */
public final class Generation implements RequestReceiver {
  long request = 0;
  private final Engine engine;
  private final TextCallback callback;
  private final StringBuilder text = new StringBuilder();
  private final List<Token> tokens = new ArrayList<>();
  private Throwable failure = null;
  private Stats stats = null;

  Generation(Engine engine, TextCallback callback) {
    this.engine = engine;
    this.callback = callback;
  }

  /**
   * Waits for the end of the answer; returns the whole text.
   *
   * @throws RunnerException the request failed; or what the callback threw
   */
  public synchronized String text() throws InterruptedException {
    while (stats == null) wait();
    if (failure instanceof RuntimeException) throw (RuntimeException) failure;
    if (failure != null) throw (Error) failure;
    return text.toString();
  }

  /** Ends the answer; it keeps what it has. */
  public void cancel() {
    engine.cancel(request);
  }

  /** The statistics of the answer; null before its end. */
  public synchronized Stats stats() {
    return stats;
  }

  /** The answer's tokens so far, if it was asked for with {@link AnswerOptions#logprobs}. */
  public synchronized List<Token> logprobs() {
    return Collections.unmodifiableList(new ArrayList<>(tokens));
  }

  @Override
  public void text(byte[] piece) {
    String added = new String(piece, StandardCharsets.UTF_8);
    try {
      callback.onText(added);
    } catch (Throwable error) {
      synchronized (this) {
        failure = error;
      }
      throw error;
    }
    synchronized (this) {
      text.append(added);
    }
  }

  @Override
  public synchronized void token(
      int token, double logprob, byte[] bytes, int[] top, double[] logprobs, byte[][] texts) {
    tokens.add(Token.of(token, logprob, bytes, top, logprobs, texts));
  }

  @Override
  public synchronized void end(byte[] error, byte[] json) {
    if (failure == null && error != null) failure = new RunnerException(error);
    stats = new Stats(json);
    notifyAll();
  }
}
