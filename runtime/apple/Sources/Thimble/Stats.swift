import Foundation

/// The statistics of an answer; times are in seconds.
public struct Stats: Decodable, Sendable {
    /// "eos", "complete" (nothing may follow by the constraint), "length", "context_full", "stop",
    /// "interrupted"; "" before the first answer.
    public let stopReason: String
    /// Whether an answer with a constraint ended before it was complete.
    public let incomplete: Bool
    /// What was left out of the answer's schema, by its places, where that is allowed.
    public let leftOut: [String]
    /// Tokens of the prompt that were computed, and that the key/value cache had already.
    public let promptTokens: Int
    public let cachedTokens: Int
    public let generatedTokens: Int
    public let secondsToFirstToken: Double
    public let prefillTokensPerSecond: Double
    public let decodeTokensPerSecond: Double

    enum CodingKeys: String, CodingKey {
        case stopReason = "stop_reason"
        case incomplete
        case leftOut = "left_out"
        case promptTokens = "prompt_tokens"
        case cachedTokens = "cached_tokens"
        case generatedTokens = "generated_tokens"
        case secondsToFirstToken = "ttft_s"
        case prefillTokensPerSecond = "prefill_tokens_per_s"
        case decodeTokensPerSecond = "decode_tokens_per_s"
    }
}
