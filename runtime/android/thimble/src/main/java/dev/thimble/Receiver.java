package dev.thimble;

/** What the native library calls as it generates; texts are UTF-8. */
interface Receiver {
  void text(byte[] text);

  /** A token, and the most likely ones in its place: see AnswerOptions.logprobs(). */
  void token(
      int token, double logprob, byte[] text, int[] tokens, double[] logprobs, byte[][] texts);
}
