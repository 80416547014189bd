import Foundation

/// What is wrong, what is allowed, what to do: one sentence.
public struct RunnerError: LocalizedError, Equatable, Sendable {
    public let sentence: String

    public var errorDescription: String? { sentence }
}

/// Calls a function of the C interface with room for an error; throws that if it returns not 0.
func check(_ call: (UnsafeMutablePointer<CChar>, Int) -> Int32) throws {
    _ = try withError { error, size in
        call(error, size) == 0 ? error : nil
    }
}

/// The same for a function that returns null on failure.
func withError<Result>(
    _ call: (UnsafeMutablePointer<CChar>, Int) -> Result?
) throws -> Result {
    let size = 4096
    return try withUnsafeTemporaryAllocation(of: CChar.self, capacity: size) { buffer in
        let error = buffer.baseAddress!
        error.pointee = 0
        if let result = call(error, size) { return result }
        throw RunnerError(sentence: String(cString: error))
    }
}

extension String {
    /// As the C interface takes texts that have a size: zero characters may be among them.
    var bytes: [CChar] { utf8.map { CChar(bitPattern: $0) } }

    /// A path or a name, which ends at its first zero byte in C.
    func checkedName(_ what: String) throws -> String {
        if utf8.contains(0) {
            throw RunnerError(sentence: "\(what) has a zero character: leave it out")
        }
        return self
    }

    /// Bytes of the C interface; those that are not UTF-8 become U+FFFD.
    init(text: UnsafePointer<CChar>?, size: Int) {
        let bytes = UnsafeRawBufferPointer(start: text, count: size)
        self.init(decoding: bytes, as: UTF8.self)
    }
}
