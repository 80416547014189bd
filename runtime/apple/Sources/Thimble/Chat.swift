import CThimble

/// A conversation with a model that has a chat template. A turn is a message and its answer. When
/// the context is full, the oldest turns are dropped, never the system prompt. The messages belong
/// to the runner: save, restore and fork include them, and generate does not change them.
public final class Chat: Sendable {
    private let runner: Runner

    /// Continues the conversation of a runner. A system prompt that is not empty replaces its own.
    public init(_ runner: Runner, system: String = "") async throws {
        self.runner = runner
        let text = system.bytes
        try await runner.perform { pointer in
            try check { thimble_chat_start(pointer, text, text.count, $0, $1) }
        }
    }

    /// Answers a message: see Runner.generate. An answer that was cancelled stays in the conversation
    /// as far as it came; on failure the conversation does not change.
    public func say(
        _ message: String, options: AnswerOptions = AnswerOptions()
    ) -> AsyncThrowingStream<String, Error> {
        let text = message.bytes
        return runner.stream(options) { pointer, how, onText, context in
            try check {
                thimble_chat_say(pointer, text, text.count, &how, onText, context, nil, $0, $1)
            }
        }
    }

    /// Removes every turn; the system prompt stays.
    public func reset() async throws {
        try await runner.perform { pointer in try check { thimble_chat_reset(pointer, $0, $1) } }
    }

    /// The number of turns, without dropped ones.
    public func turns() async throws -> Int {
        try await runner.perform { Int(thimble_chat_turns($0)) }
    }
}
