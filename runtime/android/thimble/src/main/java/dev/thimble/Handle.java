package dev.thimble;

/** A runner of the native library: who may use it when, and how it is freed. */
final class Handle {
  /** What a runner and its forks share: one of them is used at a time. */
  private static final class Turn {
    Handle user = null;
    Thread thread = null;
    Runnable ending = null;
  }

  private final Turn turn;
  private long pointer;
  private boolean closed = false;

  Handle(long pointer) {
    this(new Turn(), pointer);
  }

  private Handle(Turn turn, long pointer) {
    this.turn = turn;
    this.pointer = pointer;
  }

  Handle fork(long fork) {
    return new Handle(turn, fork);
  }

  /** Returns the pointer, and excludes other use until end(). */
  long begin() {
    synchronized (turn) {
      if (closed) throw new RunnerException("this runner is closed: load the model again");
      if (turn.user != null) {
        throw new RunnerException(
            "this runner or a fork of it is in use: wait for the end of its answer, or cancel it");
      }
      turn.user = this;
      turn.thread = Thread.currentThread();
      Native.interrupt(pointer, false);
      return pointer;
    }
  }

  /** Between begin() and end(): `thread` uses the handle until it calls end(), which `ending` asks
   * for. */
  void lend(Thread thread, Runnable ending) {
    synchronized (turn) {
      turn.thread = thread;
      turn.ending = ending;
    }
  }

  void end() {
    synchronized (turn) {
      turn.user = null;
      turn.thread = null;
      turn.ending = null;
      if (closed) free();
      turn.notifyAll();
    }
  }

  /** Ends the answer that this handle generates, if any. */
  void interrupt() {
    synchronized (turn) {
      if (turn.user == this) Native.interrupt(pointer, true);
    }
  }

  /** Ends what uses the handle, waits for it and frees the runner. Within a callback of its own
   * answer it does not wait: end() frees it. */
  void close() {
    boolean interrupted = false;
    Runnable ending;
    synchronized (turn) {
      closed = true;
      interrupt();
      ending = turn.user == this ? turn.ending : null;
    }
    if (ending != null) ending.run();
    synchronized (turn) {
      while (turn.user == this) {
        if (turn.thread == Thread.currentThread()) return;
        try {
          turn.wait();
        } catch (InterruptedException e) {
          interrupted = true;
        }
      }
      free();
    }
    if (interrupted) Thread.currentThread().interrupt();
  }

  private void free() {
    Native.free(pointer);
    pointer = 0;
  }
}
