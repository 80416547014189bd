package dev.thimble;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** As much JSON as the C interface speaks: objects of strings, their lists, numbers, booleans. */
final class Json {
  private final String text;
  private int at = 0;

  private Json(String text) {
    this.text = text;
  }

  static String quoted(String value) {
    StringBuilder json = new StringBuilder("\"");
    for (char c : value.toCharArray()) {
      if (c == '"' || c == '\\') {
        json.append('\\').append(c);
      } else if (c < ' ') {
        json.append(String.format("\\u%04x", (int) c));
      } else {
        json.append(c);
      }
    }
    return json.append('"').toString();
  }

  /** The values are String, List of String, Double and Boolean. */
  static Map<String, Object> readObject(String text) {
    return new Json(text).object();
  }

  private Map<String, Object> object() {
    Map<String, Object> values = new LinkedHashMap<>();
    take('{');
    while (next() != '}') {
      if (!values.isEmpty()) take(',');
      next();
      String name = string();
      take(':');
      values.put(name, value());
    }
    return values;
  }

  private Object value() {
    switch (next()) {
      case '"':
        return string();
      case '[':
        return strings();
      default:
        return word();
    }
  }

  private List<String> strings() {
    List<String> values = new ArrayList<>();
    take('[');
    while (next() != ']') {
      if (!values.isEmpty()) take(',');
      next();
      values.add(string());
    }
    take(']');
    return values;
  }

  private char next() {
    while (Character.isWhitespace(text.charAt(at))) ++at;
    return text.charAt(at);
  }

  private void take(char expected) {
    if (next() != expected) throw new IllegalArgumentException("not JSON at " + at + ": " + text);
    ++at;
  }

  private String string() {
    StringBuilder value = new StringBuilder();
    take('"');
    while (text.charAt(at) != '"') {
      char c = text.charAt(at++);
      if (c == '\\') {
        c = text.charAt(at++);
        if (c == 'u') {
          c = (char) Integer.parseInt(text.substring(at, at + 4), 16);
          at += 4;
        }
      }
      value.append(c);
    }
    ++at;
    return value.toString();
  }

  private Object word() {
    int start = at;
    while ("},".indexOf(text.charAt(at)) < 0) ++at;
    String word = text.substring(start, at).trim();
    if (word.equals("true") || word.equals("false")) return word.equals("true");
    return Double.valueOf(word);
  }
}
