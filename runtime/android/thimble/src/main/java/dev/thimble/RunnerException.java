package dev.thimble;

import java.nio.charset.StandardCharsets;

/** What is wrong, what is allowed, what to do: one sentence. */
public final class RunnerException extends RuntimeException {
  private static final long serialVersionUID = 1;

  RunnerException(String sentence) {
    super(sentence);
  }

  /** Called by the native library. */
  RunnerException(byte[] sentence) {
    super(new String(sentence, StandardCharsets.UTF_8));
  }
}
