import CThimble
import Foundation

/// An answer of a runner, which any thread may cancel, before, while and after it is at work.
final class Answer: @unchecked Sendable {
    private let lock = NSLock()
    private var cancelled = false
    private var runner: OpaquePointer?  // while it is at work
    private let continuation: AsyncThrowingStream<String, Error>.Continuation
    /// Those of its text so far, if they are asked for; of the thread that runs it.
    private(set) var tokens: [Token] = []

    init(_ continuation: AsyncThrowingStream<String, Error>.Continuation) {
        self.continuation = continuation
    }

    func cancel() {
        lock.withLock {
            cancelled = true
            if let runner { thimble_interrupt(runner, 1) }
        }
    }

    /// Does the work with callbacks for text and tokens and their context, and ends the stream.
    func run(
        _ runner: OpaquePointer,
        _ work: (thimble_text_callback, thimble_token_callback, UnsafeMutableRawPointer) throws -> Void
    ) {
        lock.withLock {
            thimble_interrupt(runner, cancelled ? 1 : 0)
            self.runner = runner
        }
        let onText: thimble_text_callback = { text, size, context in
            let answer = Unmanaged<Answer>.fromOpaque(context!).takeUnretainedValue()
            answer.continuation.yield(String(text: text, size: size))
            return 1
        }
        let onToken: thimble_token_callback = { chosen, top, count, context in
            let answer = Unmanaged<Answer>.fromOpaque(context!).takeUnretainedValue()
            let likeliest = UnsafeBufferPointer(start: top, count: count).map { Token($0) }
            answer.tokens.append(Token(chosen!.pointee, top: likeliest))
        }
        do {
            try work(onText, onToken, Unmanaged.passUnretained(self).toOpaque())
            end()
            continuation.finish()
        } catch {
            end()
            continuation.finish(throwing: error)
        }
    }

    private func end() {
        lock.withLock { runner = nil }
    }
}
