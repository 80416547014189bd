import CThimble

/// A token of an answer, and how likely the model found it.
public struct Token: Sendable {
    public let id: Int32
    /// The natural logarithm of its probability, before penalties, temperature and constraint.
    public let logprob: Double
    /// What it adds to the text: perhaps a part of a character.
    public let bytes: [UInt8]
    /// The most likely tokens in its place, the most likely first; their own list is empty.
    public let top: [Token]

    /// The bytes as text; a part of a character becomes U+FFFD.
    public var text: String { String(decoding: bytes, as: UTF8.self) }

    /// A token of the C interface, valid during its callback.
    init(_ token: thimble_token, top: [Token] = []) {
        id = token.token
        logprob = token.logprob
        bytes = [UInt8](UnsafeRawBufferPointer(start: token.text, count: token.size))
        self.top = top
    }
}
