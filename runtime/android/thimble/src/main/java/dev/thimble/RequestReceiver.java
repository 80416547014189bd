package dev.thimble;

/** What the native library calls for a request of an Engine, in the engine's thread. */
interface RequestReceiver extends Receiver {
  /**
   * The request has ended; is called once.
   *
   * @param error null, or the sentence of why it failed
   * @param stats as JSON
   */
  void end(byte[] error, byte[] stats);
}
