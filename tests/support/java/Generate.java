import dev.thimble.AnswerOptions;
import dev.thimble.LoadOptions;
import dev.thimble.Runner;
import dev.thimble.Stats;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;

/**
 * Writes an answer to a file: MODEL PROMPT_FILE OUT TOKENS [TEMPERATURE]. Prints the statistics.
 */
public final class Generate {
  private Generate() {}

  public static void main(String[] arguments) throws Exception {
    String prompt =
        new String(Files.readAllBytes(Paths.get(arguments[1])), StandardCharsets.UTF_8);
    AnswerOptions options =
        new AnswerOptions().maxNewTokens(Long.parseLong(arguments[3])).seed(7);
    if (arguments.length > 4) options.temperature(Double.parseDouble(arguments[4]));
    List<String> pieces = new ArrayList<>();
    try (Runner runner = Runner.load(arguments[0], new LoadOptions().threads(1))) {
      Stats stats = runner.generate(prompt, options, pieces::add);
      System.out.print(stats.json());
    }
    for (String piece : pieces) {
      Expect.that(!piece.isEmpty(), "an empty piece");
      Expect.that(!Character.isLowSurrogate(piece.charAt(0)), "a piece begins in a character");
      Expect.that(
          !Character.isHighSurrogate(piece.charAt(piece.length() - 1)), "a piece ends in one");
    }
    Expect.that(pieces.size() > 1, "the answer came at once");
    byte[] text = String.join("", pieces).getBytes(StandardCharsets.UTF_8);
    Files.write(Paths.get(arguments[2]), text);
  }
}
