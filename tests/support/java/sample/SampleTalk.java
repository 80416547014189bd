package dev.thimble.sample;

import dev.thimble.Stats;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** The sample app without its screen: CHAT_MODEL PLAIN_MODEL. */
public final class SampleTalk implements Talk.Listener {
  private final LinkedBlockingQueue<String> events = new LinkedBlockingQueue<>();

  /** A failure ends the program, whatever the model's thread does. */
  public static void main(String[] arguments) {
    try {
      check(arguments);
    } catch (Throwable failure) {
      failure.printStackTrace();
      System.exit(1);
    }
  }

  private static void check(String[] arguments) throws Exception {
    SampleTalk seen = new SampleTalk();
    Talk talk = new Talk(seen);
    talk.stop(); // nothing is at work
    talk.load("/nowhere/model.pte");
    seen.expect("error ");
    for (String model : arguments) {
      talk.load(model);
      seen.expect("loaded");
      talk.say("Once upon a time");
      seen.expect("text");
      talk.stop();
      seen.expect("end interrupted");
    }
    talk.say("Once upon a time");
    talk.say("Once upon a time");
    seen.expect("text");
    talk.close();
    seen.expect("end");
    seen.expect("end");
  }

  /** The next event that is not text, or any, begins like this. */
  private void expect(String begin) throws InterruptedException {
    String event;
    do {
      event = events.poll(60, TimeUnit.SECONDS);
    } while (event != null && event.equals("text") && !begin.equals("text"));
    if (event == null || !event.startsWith(begin)) {
      throw new AssertionError("found <" + event + ">, expected <" + begin + ">");
    }
  }

  @Override
  public void onLoaded(String name) {
    events.add("loaded " + name);
  }

  @Override
  public void onText(String text) {
    events.add("text");
  }

  @Override
  public void onEnd(Stats stats) {
    events.add("end " + stats.stopReason());
  }

  @Override
  public void onError(String sentence) {
    events.add("error " + sentence);
  }
}
