package dev.thimble;

import java.lang.ref.Reference;
import java.lang.ref.ReferenceQueue;
import java.lang.ref.WeakReference;
import java.util.HashMap;
import java.util.Map;

/** The conversations of a runner's chats, used between Handle.begin() and end(). */
final class Conversations {
  private final Map<Reference<?>, Long> numbers = new HashMap<>();
  private final ReferenceQueue<Chat> gone = new ReferenceQueue<>();

  /** Begins the conversation of a chat, and forgets those of chats that are no longer reachable. */
  long begin(long runner, Chat chat, byte[] system) {
    for (Reference<?> one = gone.poll(); one != null; one = gone.poll()) {
      Native.chatEnd(runner, numbers.remove(one));
    }
    long number = Native.chatBegin(runner, system);
    numbers.put(new WeakReference<>(chat, gone), number);
    return number;
  }
}
