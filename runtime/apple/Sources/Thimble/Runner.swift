import CThimble
import Foundation

/// The C library's runner, freed when nothing uses it any more.
private final class Handle: @unchecked Sendable {
    let pointer: OpaquePointer
    var answer: Answer?  // the last one; of the queue's thread

    init(_ pointer: OpaquePointer) {
        self.pointer = pointer
    }

    deinit {
        thimble_free(pointer)
    }
}

/// A language model that continues text, with its own key/value cache.
///
/// It may be used from any task. What is asked of a runner and its forks is done one after the
/// other, in a thread of the model's.
public final class Runner: Sendable {
    private let handle: Handle
    private let queue: DispatchQueue

    /// The library's version, such as "0.1.0".
    public static var version: String { String(cString: thimble_version()) }

    /// Loads a .pte file, which must stay as it is while the model is in use.
    public convenience init(path: String, options: LoadOptions = LoadOptions()) async throws {
        let queue = DispatchQueue(label: "thimble", qos: .userInitiated)
        let name = try path.checkedName("the path")
        let key = try options.publicKey?.checkedName("the public key")
        let handle = try await Runner.perform(on: queue) {
            var how = options.forC
            return try Handle(withError { thimble_load_signed(name, key, &how, $0, $1) })
        }
        self.init(handle: handle, queue: queue)
    }

    private init(handle: Handle, queue: DispatchQueue) {
        self.handle = handle
        self.queue = queue
    }

    /// Continues a prompt; yields the text in pieces. Cancelling the task, or leaving the loop, ends
    /// the answer: at its next token, or within a prompt after at most 256 tokens.
    public func generate(
        _ prompt: String, options: AnswerOptions = AnswerOptions()
    ) -> AsyncThrowingStream<String, Error> {
        let text = prompt.bytes
        return stream(options) { runner, how, onText, context in
            try check {
                thimble_generate(runner, text, text.count, &how, onText, context, $0, $1)
            }
        }
    }

    /// The statistics of the last answer.
    public func stats() async throws -> Stats {
        try await perform { runner in
            let json = String(cString: thimble_stats(runner))
            return try JSONDecoder().decode(Stats.self, from: Data(json.utf8))
        }
    }

    /// The last answer's tokens, if AnswerOptions.logprobs asked for them.
    public func logprobs() async throws -> [Token] {
        let handle = handle
        return try await Runner.perform(on: queue) { handle.answer?.tokens ?? [] }
    }

    /// The tokens of a text, without BOS; special tokens in it are plain text.
    public func encode(_ text: String) async throws -> [Int32] {
        let bytes = text.bytes
        return try await perform { runner in
            let count = thimble_encode(runner, bytes, bytes.count, nil, 0)
            return [Int32](unsafeUninitializedCapacity: Int(count)) { tokens, size in
                let start = tokens.baseAddress
                size = Int(thimble_encode(runner, bytes, bytes.count, start, count))
            }
        }
    }

    /// The number of tokens in the key/value cache, prompt and answer.
    public func length() async throws -> Int {
        try await perform { Int(thimble_length($0)) }
    }

    /// Removes every token from `length` on; the cache must have as many.
    public func truncate(to length: Int) async throws {
        try await perform { runner in
            try check { thimble_truncate(runner, Int64(length), $0, $1) }
        }
    }

    /// Writes the key/value cache, and the messages of the chat that was used last, to a file.
    public func save(to path: String) async throws {
        let file = try path.checkedName("the path")
        try await perform { runner in try check { thimble_save(runner, file, $0, $1) } }
    }

    /// Resumes from a file that save(to:) wrote with the same model; on failure nothing changes.
    public func restore(from path: String) async throws {
        let file = try path.checkedName("the path")
        try await perform { runner in try check { thimble_restore(runner, file, $0, $1) } }
    }

    /// Another runner of the same model, which shares the weights and continues from here.
    public func fork() async throws -> Runner {
        let fork = try await perform { runner in
            try Handle(withError { thimble_fork(runner, $0, $1) })
        }
        return Runner(handle: fork, queue: queue)
    }

    /// Checks the complete file, including the weights.
    public func verify() async throws {
        try await perform { runner in try check { thimble_verify(runner, $0, $1) } }
    }

    /// The names of the adapters in the file.
    public func adapters() async throws -> [String] {
        try await perform { runner in
            (0..<thimble_adapters(runner)).map { String(cString: thimble_adapter_at(runner, $0)) }
        }
    }

    /// The name of the adapter that it runs with; "": none.
    public func adapter() async throws -> String {
        try await perform { String(cString: thimble_adapter($0)) }
    }

    /// Runs with an adapter from now on; "": with none. The key/value cache is then empty.
    public func useAdapter(_ name: String) async throws {
        let adapter = try name.checkedName("the name")
        try await perform { runner in try check { thimble_use_adapter(runner, adapter, $0, $1) } }
    }

    /// Verifies guesses of the next tokens: "ngram", or the path of a smaller model; "": none.
    public func useDraft(_ draft: String) async throws {
        let given = try draft.checkedName("the draft")
        try await perform { runner in try check { thimble_use_draft(runner, given, $0, $1) } }
    }

    /// Does some work with the C library's runner, after all that was asked before.
    func perform<Result: Sendable>(
        _ work: @escaping @Sendable (OpaquePointer) throws -> Result
    ) async throws -> Result {
        let handle = handle
        return try await Runner.perform(on: queue) { try work(handle.pointer) }
    }

    /// Does some work after all that was asked before, and does not wait for it.
    func later(_ work: @escaping @Sendable (OpaquePointer) -> Void) {
        let handle = handle
        queue.async { work(handle.pointer) }
    }

    /// Answers: the work gets the runner, the options, and the callback for the text.
    func stream(
        _ options: AnswerOptions,
        _ work: @escaping @Sendable (
            OpaquePointer, inout thimble_options, thimble_text_callback, UnsafeMutableRawPointer
        ) throws -> Void
    ) -> AsyncThrowingStream<String, Error> {
        let handle = handle
        let queue = queue
        return AsyncThrowingStream { continuation in
            let answer = Answer(continuation)
            continuation.onTermination = { _ in answer.cancel() }
            queue.async {
                handle.answer = answer
                answer.run(handle.pointer) { onText, onToken, context in
                    var how = options.forC
                    try options.apply(to: handle.pointer, onToken, context)
                    try work(handle.pointer, &how, onText, context)
                }
            }
        }
    }

    private static func perform<Result: Sendable>(
        on queue: DispatchQueue, _ work: @escaping @Sendable () throws -> Result
    ) async throws -> Result {
        try await withCheckedThrowingContinuation { continuation in
            queue.async { continuation.resume(with: Swift.Result { try work() }) }
        }
    }
}
