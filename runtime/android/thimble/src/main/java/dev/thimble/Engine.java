package dev.thimble;

import java.io.Closeable;

/**
 * Runs several requests at once, in shared calls of a model that was exported with --delegate cpu;
 * each gets the text that it would get alone. It may be used from any thread, also within
 * callbacks. While it is open, its runner and the forks of it cannot be used.
 */
public final class Engine implements Closeable {
  private final Handle handle;
  private final long runner;
  private final long engine;
  private final Thread worker;
  private boolean closing = false;
  private boolean submitted = false; // since the last step began

  /** The same as {@link #Engine(Runner, EngineOptions)} with the options' defaults. */
  public Engine(Runner runner) {
    this(runner, new EngineOptions());
  }

  /**
   * Opens an engine, with the runner's adapter.
   *
   * @throws RunnerException an option is out of range, the model was exported with another
   *     delegate, or the runner is closed or in use
   */
  public Engine(Runner runner, EngineOptions options) {
    Check.notNull("options", options);
    handle = Check.notNull("runner", runner).handle;
    this.runner = handle.begin();
    try {
      engine =
          Native.engineOpen(this.runner, options.sequences, options.queueSize, options.promptRows);
    } catch (Throwable error) {
      handle.end();
      throw error;
    }
    worker = new Thread(this::work, "thimble-engine");
    worker.setDaemon(true);
    handle.lend(worker, this::close);
    worker.start();
  }

  /** Accepts a request whose text {@link Generation#text()} returns. */
  public Generation submit(String prompt, AnswerOptions options) {
    return submit(prompt, options, text -> {});
  }

  /** Accepts a request with the adapter that the runner had. */
  public Generation submit(String prompt, AnswerOptions options, TextCallback callback) {
    return submit(prompt, options, null, callback);
  }

  /**
   * Accepts a request.
   *
   * @param adapter "": none; null: that of the runner when the engine was opened
   * @param callback receives the text in the engine's thread, and must return soon
   * @throws RunnerException an option is out of range, there is no such adapter, the prompt does
   *     not fit the context, the queue is full, or the engine is closed
   */
  public Generation submit(
      String prompt, AnswerOptions options, String adapter, TextCallback callback) {
    Check.notNull("options", options);
    byte[] text = Check.text("prompt", prompt);
    byte[] name = adapter == null ? null : Check.name("adapter", adapter);
    Generation generation = new Generation(this, Check.notNull("callback", callback));
    long settings = options.openSettings(runner);
    try {
      synchronized (this) {
        if (closing) throw new RunnerException("this engine is closed: open another");
        generation.request =
            Native.engineSubmit(
                engine, Native.encodePrompt(runner, text),
                options.seedOfAnswer(), options.constraintKind, options.constraint,
                settings, options.logprobs, name, generation);
        submitted = true;
        notifyAll();
      }
    } finally {
      Native.settingsFree(settings);
    }
    return generation;
  }

  /**
   * Ends every request as interrupted and waits for that; within a callback it does not wait. The
   * runner can then be used again.
   */
  @Override
  public void close() {
    synchronized (this) {
      closing = true;
      notifyAll();
    }
    boolean interrupted = false;
    while (worker != Thread.currentThread() && worker.isAlive()) {
      try {
        worker.join();
      } catch (InterruptedException e) {
        interrupted = true;
      }
    }
    if (interrupted) Thread.currentThread().interrupt();
  }

  synchronized void cancel(long request) {
    if (!closing) Native.engineCancel(engine, request);
  }

  /** Steps while there is work; waits for it otherwise. */
  private void work() {
    try {
      long left = 0;
      while (hasWork(left)) left = Native.engineStep(engine);
    } finally {
      Native.engineFree(engine);
      handle.end();
    }
  }

  /** Waits until a request is left or new; false: the engine closes. */
  private synchronized boolean hasWork(long left) {
    while (left == 0 && !submitted && !closing) {
      try {
        wait();
      } catch (InterruptedException e) {
        closing = true;
      }
    }
    submitted = false;
    return !closing;
  }
}
