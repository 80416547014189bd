package dev.thimble;

/** The native library: thimble.h, with texts as UTF-8. Failures are RunnerExceptions. */
final class Native {
  static {
    String path = System.getProperty("thimble.library");
    if (path != null) {
      System.load(path);
    } else {
      System.loadLibrary("thimble_jni");
    }
  }

  private Native() {}

  static native byte[] version();

  static native long load(
      byte[] path, byte[] publicKey, int threads, int cacheType, boolean hugePages);

  static native void free(long runner);

  static native void interrupt(long runner, boolean interrupted);

  static native long fork(long runner);

  static native void verify(long runner);

  /** thimble_generate() and thimble_chat_say(); returns the turns that a chat dropped. */
  static native long answer(
      long runner,
      boolean chat,
      byte[] text,
      long seed,
      int constraintKind,
      byte[] constraint,
      long settings,
      int logprobs,
      Receiver receiver);

  static native byte[] fileSettings(long runner);

  static native byte[] stats(long runner);

  static native byte[] constraintNotes(long runner);

  /** Returns the number of the new conversation. */
  static native long chatBegin(long runner, byte[] system);

  static native void chatChoose(long runner, long conversation);

  static native void chatEnd(long runner, long conversation);

  static native void chatAdd(long runner, byte[] message, byte[] answer);

  static native void chatReset(long runner);

  static native long chatTurns(long runner, long conversation);

  static native int[] encode(long runner, byte[] text);

  static native int[] encodePrompt(long runner, byte[] text);

  static native long length(long runner);

  static native void truncate(long runner, long length);

  static native void save(long runner, byte[] path);

  static native void restore(long runner, byte[] path);

  static native byte[][] adapters(long runner);

  static native byte[] adapter(long runner);

  static native void useAdapter(long runner, byte[] name);

  static native void useDraft(long runner, byte[] draft);

  static native long settingsNew();

  static native void settingsFree(long settings);

  static native void settingsNumber(long settings, byte[] name, double value);

  static native void settingsBias(long settings, int token, double value);

  static native void settingsStop(long settings, byte[] text);

  static native void settingsPrediction(long settings, byte[] text);

  static native long engineOpen(long runner, int sequences, int queue, int promptRows);

  /** adapter: null: the runner's. The receiver is kept until its end. */
  static native long engineSubmit(
      long engine,
      int[] tokens,
      long seed,
      int constraintKind,
      byte[] constraint,
      long settings,
      int logprobs,
      byte[] adapter,
      RequestReceiver receiver);

  static native void engineCancel(long engine, long request);

  static native long engineStep(long engine);

  static native void engineFree(long engine);
}
