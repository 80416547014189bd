package dev.thimble;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ThreadLocalRandom;

/**
 * The options of an answer. A number that is not set is that of the file, where the model's authors
 * set it, else its default, which has no effect. Numbers are checked when an answer is asked for.
 *
 * <p>A token is chosen by the model's logits, changed in this order: logit biases, repetition,
 * presence and frequency penalty, DRY, the constraint, temperature, topK, typicalP, topP, minP, XTC.
 * Temperature is the last with typicalP, XTC or dynatempRange; with mirostat, that alone follows it.
 */
public final class AnswerOptions {
  // The kinds of constraint in thimble.h.
  private static final int JSON_SCHEMA = 1;
  private static final int REGEX = 2;
  private static final int CHOICE = 3;
  private static final int GRAMMAR = 4;

  int logprobs = -1;
  int constraintKind = 0;
  byte[] constraint = {};
  private Long seed = null;
  private final Map<String, Double> numbers = new TreeMap<>();
  private final Map<Integer, Double> biases = new TreeMap<>();
  private List<byte[]> stops = new ArrayList<>();
  private byte[] prediction = {};

  /** The most tokens of the answer; 0, the default: until the model ends or the context is full. */
  public AnswerOptions maxNewTokens(long count) {
    return number("max_new_tokens", count);
  }

  /** 0 to 100, by which logits are divided; 0, the default: always the most likely token. */
  public AnswerOptions temperature(double value) {
    return number("temperature", value);
  }

  /** Samples from so many of the most likely tokens; 0, the default: from all. */
  public AnswerOptions topK(int count) {
    return number("top_k", count);
  }

  /** 0 to 1: the smallest set of tokens whose probabilities add up to it; default 1. */
  public AnswerOptions topP(double share) {
    return number("top_p", share);
  }

  /** 0 to 1: tokens at least so many times as likely as the most likely one; default 0. */
  public AnswerOptions minP(double share) {
    return number("min_p", share);
  }

  /** Makes sampling repeatable. Default: a new seed every time. */
  public AnswerOptions seed(long value) {
    seed = value;
    return this;
  }

  /** 0.01 to 100: divides logits above 0 of tokens that the text has; default 1. */
  public AnswerOptions repetitionPenalty(double value) {
    return number("repetition_penalty", value);
  }

  /** -2 to 2: is taken from the logits of tokens that the answer has; default 0. */
  public AnswerOptions presencePenalty(double value) {
    return number("presence_penalty", value);
  }

  /** -2 to 2: is taken from them as often as the answer has the token; default 0. */
  public AnswerOptions frequencyPenalty(double value) {
    return number("frequency_penalty", value);
  }

  /** 0 to 100: DRY, a penalty for tokens that go on with a repetition; default 0. */
  public AnswerOptions dryMultiplier(double value) {
    return number("dry_multiplier", value);
  }

  /** 1 to 100: the base of DRY's penalty; default 1.75. */
  public AnswerOptions dryBase(double value) {
    return number("dry_base", value);
  }

  /** Tokens of a repetition that have no penalty of DRY; default 2. */
  public AnswerOptions dryAllowedLength(int value) {
    return number("dry_allowed_length", value);
  }

  /** The last tokens, in which DRY looks for repetitions; default 64. */
  public AnswerOptions dryPenaltyLastN(int value) {
    return number("dry_penalty_last_n", value);
  }

  /** 0 to 1: tokens whose surprise is nearest to the expected one; default 1. */
  public AnswerOptions typicalP(double value) {
    return number("typical_p", value);
  }

  /** 0 to 1: XTC, at a token with this probability; default 0. */
  public AnswerOptions xtcProbability(double value) {
    return number("xtc_probability", value);
  }

  /** 0 to 1: of the tokens so likely, XTC leaves only the least likely; default 0.1. */
  public AnswerOptions xtcThreshold(double value) {
    return number("xtc_threshold", value);
  }

  /** 0 to 100: temperature is lower or higher by it, with the entropy; default 0. */
  public AnswerOptions dynatempRange(double value) {
    return number("dynatemp_range", value);
  }

  /** 0 to 100: the power of the entropy that temperature follows; default 1. */
  public AnswerOptions dynatempExponent(double value) {
    return number("dynatemp_exponent", value);
  }

  /** 0 to 2: Mirostat 1 or 2 in place of the filters of tokens; default 0. */
  public AnswerOptions mirostat(int value) {
    return number("mirostat", value);
  }

  /** 0 to 100: Mirostat's target, in bits of surprise a token; default 5. */
  public AnswerOptions mirostatTau(double value) {
    return number("mirostat_tau", value);
  }

  /** 0 to 1: how fast Mirostat learns; default 0.1. */
  public AnswerOptions mirostatEta(double value) {
    return number("mirostat_eta", value);
  }

  /** Special tokens that the model writes are passed on as text, except the one that ends it. */
  public AnswerOptions specialText(boolean value) {
    return number("special_text", value ? 1 : 0);
  }

  /** Adds -100 to 100 to the logit of a token; -100 bans it. */
  public AnswerOptions logitBias(int token, double value) {
    biases.put(token, value);
    return this;
  }

  /** Where the answer ends: neither such a text nor what follows is passed on. */
  public AnswerOptions stop(String... texts) {
    List<byte[]> given = new ArrayList<>();
    for (String text : Check.notNull("stop", texts)) given.add(Check.text("a stop text", text));
    stops = given;
    return this;
  }

  /** A text that the answer may repeat, such as a file that it changes: an Engine guesses from it. */
  public AnswerOptions prediction(String text) {
    prediction = Check.text("prediction", text);
    return this;
  }

  /** Collects each token's log-probability, and so many most likely tokens, 0 to 20. */
  public AnswerOptions logprobs(int top) {
    if (top < 0) throw new RunnerException("logprobs is " + top + ", but must be from 0 to 20");
    logprobs = top;
    return this;
  }

  /** The answer is JSON that this schema describes, given as JSON. The last constraint counts. */
  public AnswerOptions jsonSchema(String schema) {
    return constrain(JSON_SCHEMA, Check.text("jsonSchema", schema));
  }

  /** The answer is a text that the expression matches as a whole. The last constraint counts. */
  public AnswerOptions regex(String expression) {
    return constrain(REGEX, Check.text("regex", expression));
  }

  /** The answer is one of the texts. The last constraint counts. */
  public AnswerOptions choice(Collection<String> texts) {
    StringBuilder array = new StringBuilder();
    for (String text : Check.notNull("choice", texts)) {
      array.append(array.length() == 0 ? "[" : ",");
      array.append(Json.quoted(Check.notNull("a text of choice", text)));
    }
    return constrain(CHOICE, Check.text("choice", array.length() == 0 ? "[]" : array + "]"));
  }

  /** The answer is a text of a GBNF grammar, llama.cpp's notation. The last constraint counts. */
  public AnswerOptions grammar(String grammar) {
    return constrain(GRAMMAR, Check.text("grammar", grammar));
  }

  private AnswerOptions number(String name, double value) {
    numbers.put(name, value);
    return this;
  }

  private AnswerOptions constrain(int kind, byte[] text) {
    constraintKind = kind;
    constraint = text;
    return this;
  }

  long seedOfAnswer() {
    return seed != null ? seed : ThreadLocalRandom.current().nextLong();
  }

  /**
   * Settings of the C interface, which {@link Native#settingsFree} frees: those of a runner's file,
   * and in their place those that were set.
   */
  long openSettings(long runner) {
    Map<String, Double> all = new TreeMap<>();
    String ofFile = new String(Native.fileSettings(runner), StandardCharsets.UTF_8);
    Json.readObject(ofFile).forEach((name, value) -> all.put(name, (Double) value));
    all.putAll(numbers);
    long settings = Native.settingsNew();
    try {
      for (Map.Entry<String, Double> number : all.entrySet()) {
        Native.settingsNumber(settings, Check.name("name", number.getKey()), number.getValue());
      }
      for (Map.Entry<Integer, Double> bias : biases.entrySet()) {
        Native.settingsBias(settings, bias.getKey(), bias.getValue());
      }
      for (byte[] stop : stops) Native.settingsStop(settings, stop);
      Native.settingsPrediction(settings, prediction);
      return settings;
    } catch (Throwable error) {
      Native.settingsFree(settings);
      throw error;
    }
  }
}
