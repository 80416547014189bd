package dev.thimble;

/** Receives an answer as it is generated. */
@FunctionalInterface
public interface TextCallback {
  /**
   * Receives a piece of the answer, in the thread that asked for it. {@link Runner#cancel()} ends
   * the answer; so does an exception, which then comes out of the call that generates.
   *
   * @param text complete characters, at least one
   */
  void onText(String text);
}
