package dev.thimble;

import java.nio.charset.StandardCharsets;

/** Arguments as the C interface takes them. */
final class Check {
  private Check() {}

  static <T> T notNull(String name, T value) {
    if (value == null) throw new RunnerException(name + " is null: give a value");
    return value;
  }

  /** A text in UTF-8; half of a surrogate pair becomes "?". */
  static byte[] text(String name, String value) {
    return notNull(name, value).getBytes(StandardCharsets.UTF_8);
  }

  /** The same of a path or a name, which ends at its first zero byte in C. */
  static byte[] name(String name, String value) {
    byte[] text = text(name, value);
    for (byte b : text) {
      if (b == 0) throw new RunnerException(name + " has a zero character: leave it out");
    }
    return text;
  }
}
