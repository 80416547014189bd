package dev.thimble;

/** How to run a model. All but the threads need one that was exported with --delegate cpu. */
public final class LoadOptions {
  /** The type of the key/value cache's numbers. */
  public enum KvCache {
    /** As the file says. */
    DEFAULT,
    FLOAT16,
    FLOAT32,
    INT8,
    INT4,
    /** Keys of int8, values of int4. */
    INT8_INT4
  }

  int threads = 0;
  KvCache kvCache = KvCache.DEFAULT;
  boolean hugePages = false;
  String publicKey = null;

  /** 1 to 256; 0, the default, is chosen by the processor. */
  public LoadOptions threads(int threads) {
    this.threads = threads;
    return this;
  }

  public LoadOptions kvCache(KvCache kvCache) {
    this.kvCache = Check.notNull("kvCache", kvCache);
    return this;
  }

  /** Copies the weights into huge pages, if the system has them. */
  public LoadOptions hugePages(boolean hugePages) {
    this.hugePages = hugePages;
    return this;
  }

  /**
   * Loads only a file that the owner of this Ed25519 key signed: FILE.sig beside it must match every
   * byte. The key is the path of a file, or the text of its PEM.
   */
  public LoadOptions requireSignature(String publicKey) {
    this.publicKey = Check.notNull("publicKey", publicKey);
    return this;
  }
}
