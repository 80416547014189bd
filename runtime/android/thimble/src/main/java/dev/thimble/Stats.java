package dev.thimble;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;

/** The statistics of an answer; times are in seconds. */
public final class Stats {
  private final String json;
  private final Map<String, Object> values;

  Stats(byte[] json) {
    this.json = new String(json, StandardCharsets.UTF_8);
    values = Json.readObject(this.json);
  }

  /**
   * Why the answer ended: "eos", "complete" (nothing may follow by the constraint), "length",
   * "context_full", "stop", "interrupted"; "" before the first answer.
   */
  public String stopReason() {
    return text("stop_reason");
  }

  /** Whether an answer with a constraint ended before it was complete. */
  public boolean incomplete() {
    return (Boolean) value("incomplete", Boolean.class);
  }

  /** What was left out of the answer's schema, by its places, where that is allowed. */
  @SuppressWarnings("unchecked")
  public List<String> leftOut() {
    return (List<String>) value("left_out", List.class);
  }

  /** Tokens of the prompt that were computed. */
  public long promptTokens() {
    return (long) number("prompt_tokens");
  }

  /** Tokens of the prompt that the key/value cache had already. */
  public long cachedTokens() {
    return (long) number("cached_tokens");
  }

  public long generatedTokens() {
    return (long) number("generated_tokens");
  }

  public double secondsToFirstToken() {
    return number("ttft_s");
  }

  public double prefillTokensPerSecond() {
    return number("prefill_tokens_per_s");
  }

  public double decodeTokensPerSecond() {
    return number("decode_tokens_per_s");
  }

  /** A number by its name in {@link #json()}. */
  public double number(String name) {
    return (Double) value(name, Double.class);
  }

  /** A text by its name in {@link #json()}. */
  public String text(String name) {
    return (String) value(name, String.class);
  }

  /** Everything, as the runner's option --json writes it. */
  public String json() {
    return json;
  }

  @Override
  public String toString() {
    return json;
  }

  private Object value(String name, Class<?> type) {
    Object value = values.get(name);
    if (type.isInstance(value)) return value;
    throw new RunnerException(
        "the statistics have no " + type.getSimpleName() + " " + name + ": it must be one of "
            + values.keySet());
  }
}
