import CThimble

/// A conversation with a model that has a chat template. A turn is a message and its answer. When
/// the context is full, the oldest turns are dropped, never the system prompt. Each chat of a runner
/// is a conversation of its own; generate changes none. The runner's save and fork include the
/// messages of the chat that was used last, and restore replaces them.
public final class Chat: Sendable {
    private let runner: Runner
    private let number: Int64

    /// Begins a conversation, with the messages that the runner was last restored or forked with, if
    /// any. A system prompt that is not empty replaces theirs.
    public init(_ runner: Runner, system: String = "") async throws {
        self.runner = runner
        let text = system.bytes
        number = try await runner.perform { pointer in
            var begun: Int64 = -1
            try check { error, size in
                begun = thimble_chat_begin(pointer, text, text.count, error, size)
                return begun < 0 ? 1 : 0
            }
            return begun
        }
    }

    deinit {
        let number = number
        runner.later { thimble_chat_end($0, number) }
    }

    /// Answers a message: see Runner.generate. An answer that was cancelled stays in the conversation
    /// as far as it came; on failure the conversation does not change.
    public func say(
        _ message: String, options: AnswerOptions = AnswerOptions()
    ) -> AsyncThrowingStream<String, Error> {
        let text = message.bytes
        let number = number
        return runner.stream(options) { pointer, how, onText, context in
            try check { thimble_chat_choose(pointer, number, $0, $1) }
            try check {
                thimble_chat_say(pointer, text, text.count, &how, onText, context, nil, $0, $1)
            }
        }
    }

    /// Adds a turn that was had before, such as one that an app kept. Nothing is computed before the
    /// next message.
    public func add(_ message: String, answer: String) async throws {
        let number = number
        let (asked, said) = (message.bytes, answer.bytes)
        try await runner.perform { pointer in
            try check { thimble_chat_choose(pointer, number, $0, $1) }
            try check {
                thimble_chat_add(pointer, asked, asked.count, said, said.count, $0, $1)
            }
        }
    }

    /// Removes every turn; the system prompt stays.
    public func reset() async throws {
        let number = number
        try await runner.perform { pointer in
            try check { thimble_chat_choose(pointer, number, $0, $1) }
            try check { thimble_chat_reset(pointer, $0, $1) }
        }
    }

    /// The number of turns, without dropped ones.
    public func turns() async throws -> Int {
        let number = number
        return try await runner.perform { Int(thimble_chat_turns_of($0, number)) }
    }
}
