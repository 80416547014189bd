package dev.thimble.sample;

import dev.thimble.AnswerOptions;
import dev.thimble.Chat;
import dev.thimble.Runner;
import dev.thimble.RunnerException;
import dev.thimble.Stats;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * A model, and a conversation with it, in a thread of its own. A model without a chat template
 * continues what is written.
 */
final class Talk {
  /** Is told what happens, in the thread of the model. */
  interface Listener {
    void onLoaded(String name);

    void onText(String text);

    /** The answer has ended. */
    void onEnd(Stats stats);

    /** What is wrong, in a sentence. */
    void onError(String sentence);
  }

  private final ExecutorService thread = Executors.newSingleThreadExecutor();
  private final Listener listener;
  private volatile Runner runner = null;
  private Chat chat = null;

  Talk(Listener listener) {
    this.listener = listener;
  }

  /** Loads a model in place of the one before. */
  void load(String path) {
    work(
        () -> {
          free();
          runner = Runner.load(path);
          try {
            chat = new Chat(runner);
          } catch (RunnerException e) {
            chat = null; // the file has no chat template
          }
          listener.onLoaded(path.substring(path.lastIndexOf('/') + 1));
        });
  }

  void say(String message) {
    work(
        () -> {
          AnswerOptions options = new AnswerOptions().temperature(0.7).topP(0.95);
          listener.onEnd(
              chat != null
                  ? chat.say(message, options, listener::onText)
                  : runner.generate(message, options, listener::onText));
        });
  }

  /** Ends the answer; the conversation keeps what there is of it. */
  void stop() {
    Runner current = runner;
    if (current != null) current.cancel();
  }

  /** Ends everything. */
  void close() {
    stop();
    thread.execute(this::free);
    thread.shutdown();
  }

  private void work(Runnable work) {
    thread.execute(
        () -> {
          try {
            work.run();
          } catch (RunnerException e) {
            listener.onError(e.getMessage());
          }
        });
  }

  private void free() {
    if (runner != null) runner.close();
    runner = null;
    chat = null;
  }
}
