import CThimble
import Foundation

/// An answer of a runner, which any thread may cancel, before, while and after it is at work.
final class Answer: @unchecked Sendable {
    private let lock = NSLock()
    private var cancelled = false
    private var runner: OpaquePointer?  // while it is at work
    private let continuation: AsyncThrowingStream<String, Error>.Continuation

    init(_ continuation: AsyncThrowingStream<String, Error>.Continuation) {
        self.continuation = continuation
    }

    func cancel() {
        lock.withLock {
            cancelled = true
            if let runner { thimble_interrupt(runner, 1) }
        }
    }

    /// Does the work with a callback for the text and its context, and ends the stream.
    func run(
        _ runner: OpaquePointer, _ work: (thimble_text_callback, UnsafeMutableRawPointer) throws -> Void
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
        do {
            try work(onText, Unmanaged.passUnretained(self).toOpaque())
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
