package dev.thimble;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** A token of an answer, and how likely the model found it. */
public final class Token {
  private final int id;
  private final double logprob;
  private final byte[] bytes;
  private final List<Token> top;

  Token(int id, double logprob, byte[] bytes, List<Token> top) {
    this.id = id;
    this.logprob = logprob;
    this.bytes = bytes;
    this.top = Collections.unmodifiableList(top);
  }

  static Token of(
      int id, double logprob, byte[] bytes, int[] tokens, double[] logprobs, byte[][] texts) {
    List<Token> top = new ArrayList<>();
    for (int i = 0; i < tokens.length; ++i) {
      top.add(new Token(tokens[i], logprobs[i], texts[i], Collections.<Token>emptyList()));
    }
    return new Token(id, logprob, bytes, top);
  }

  public int id() {
    return id;
  }

  /** The natural logarithm of its probability, before penalties, temperature and constraint. */
  public double logprob() {
    return logprob;
  }

  /** What it adds to the text: perhaps a part of a character. */
  public byte[] bytes() {
    return bytes.clone();
  }

  /** The same as text; a part of a character becomes U+FFFD. */
  public String text() {
    return new String(bytes, StandardCharsets.UTF_8);
  }

  /** The most likely tokens in its place, the most likely first; their own list is empty. */
  public List<Token> top() {
    return top;
  }
}
