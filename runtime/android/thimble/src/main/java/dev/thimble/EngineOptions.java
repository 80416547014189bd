package dev.thimble;

/** How an engine shares a model. Numbers are checked when it is opened. */
public final class EngineOptions {
  int sequences = 8;
  int queueSize = 64;
  int promptRows = 64;

  /** Requests that run at once, 1 to 32; each has a key/value cache. Default 8. */
  public EngineOptions sequences(int count) {
    sequences = count;
    return this;
  }

  /** Requests that may wait for one of these. Default 64. */
  public EngineOptions queueSize(int count) {
    queueSize = count;
    return this;
  }

  /** The most tokens of prompts in a call of the model, fewer beside answers. Default 64. */
  public EngineOptions promptRows(int count) {
    promptRows = count;
    return this;
  }
}
