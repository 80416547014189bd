import CThimble
import Foundation

/// What an answer must be.
public enum Constraint: Sendable {
    /// JSON that this schema describes, given as JSON.
    case jsonSchema(String)
    /// A text that the expression matches as a whole.
    case regex(String)
    /// One of these texts.
    case choice([String])
    /// A text of a GBNF grammar, llama.cpp's notation.
    case grammar(String)

    func forC() throws -> (kind: Int32, text: [CChar]) {
        switch self {
        case .jsonSchema(let schema): return (Int32(THIMBLE_JSON_SCHEMA), schema.bytes)
        case .regex(let expression): return (Int32(THIMBLE_REGEX), expression.bytes)
        case .grammar(let grammar): return (Int32(THIMBLE_GRAMMAR), grammar.bytes)
        case .choice(let texts):
            let array = String(decoding: try JSONEncoder().encode(texts), as: UTF8.self)
            return (Int32(THIMBLE_CHOICE), array.bytes)
        }
    }
}

/// The options of an answer. A number that is nil is that of the file, where the model's authors set
/// it, else its default, which has no effect.
///
/// A token is chosen by the model's logits, changed in this order: logit biases, repetition, presence
/// and frequency penalty, DRY, the constraint, temperature, topK, typicalP, topP, minP, XTC. Temperature
/// is the last with typicalP, XTC or dynatempRange; with mirostat, that alone follows it.
public struct AnswerOptions: Sendable {
    /// The most tokens; 0, the default: until the model ends or the context is full.
    public var maxNewTokens: Int?
    /// 0 to 100, by which logits are divided; 0, the default: always the most likely token.
    public var temperature: Float?
    /// Samples from so many of the most likely tokens; 0, the default: from all.
    public var topK: Int?
    /// 0 to 1: the smallest set of tokens whose probabilities add up to it; default 1.
    public var topP: Float?
    /// 0 to 1: tokens at least so many times as likely as the most likely one; default 0.
    public var minP: Float?
    /// Makes sampling repeatable; nil: a new seed every time.
    public var seed: UInt64?
    /// 0.01 to 100: divides logits above 0 of tokens that the text has; default 1.
    public var repetitionPenalty: Double?
    /// -2 to 2: is taken from the logits of tokens that the answer has; default 0.
    public var presencePenalty: Double?
    /// -2 to 2: is taken from them as often as the answer has the token; default 0.
    public var frequencyPenalty: Double?
    /// 0 to 100: DRY, a penalty for tokens that go on with a repetition; default 0.
    public var dryMultiplier: Double?
    /// 1 to 100: the base of DRY's penalty; default 1.75.
    public var dryBase: Double?
    /// Tokens of a repetition that have no penalty of DRY; default 2.
    public var dryAllowedLength: Int?
    /// The last tokens, in which DRY looks for repetitions; default 64.
    public var dryPenaltyLastN: Int?
    /// 0 to 1: tokens whose surprise is nearest to the expected one; default 1.
    public var typicalP: Double?
    /// 0 to 1: XTC, at a token with this probability; default 0.
    public var xtcProbability: Double?
    /// 0 to 1: of the tokens so likely, XTC leaves only the least likely; default 0.1.
    public var xtcThreshold: Double?
    /// 0 to 100: temperature is lower or higher by it, with the entropy; default 0.
    public var dynatempRange: Double?
    /// 0 to 100: the power of the entropy that temperature follows; default 1.
    public var dynatempExponent: Double?
    /// 0 to 2: Mirostat 1 or 2 in place of the filters of tokens; default 0.
    public var mirostat: Int?
    /// 0 to 100: Mirostat's target, in bits of surprise a token; default 5.
    public var mirostatTau: Double?
    /// 0 to 1: how fast Mirostat learns; default 0.1.
    public var mirostatEta: Double?
    /// -100 to 100, added to the logits of tokens; -100 bans one.
    public var logitBias: [Int32: Double] = [:]
    /// Texts where the answer ends: neither they nor what follows is passed on.
    public var stop: [String] = []
    /// Special tokens that the model writes are passed on as text, except the one that ends it.
    public var specialText = false
    /// Collects each token's log-probability, and so many most likely tokens, 0 to 20: see
    /// Runner.logprobs(); nil: not.
    public var logprobs: Int?
    public var constraint: Constraint?

    public init() {}

    /// The seed alone: the other numbers are in the settings, which win.
    var forC: thimble_options {
        thimble_options(
            max_new_tokens: 0, temperature: 0, top_k: 0, top_p: 1, min_p: 0,
            seed: seed ?? UInt64.random(in: .min ... .max))
    }

    /// The numbers of thimble_settings_number() that are given, by their names there.
    private var numbers: [String: Double] {
        var all: [String: Double] = [:]
        all["max_new_tokens"] = maxNewTokens.map { Double($0) }
        all["temperature"] = temperature.map { Double($0) }
        all["top_k"] = topK.map { Double($0) }
        all["top_p"] = topP.map { Double($0) }
        all["min_p"] = minP.map { Double($0) }
        all["repetition_penalty"] = repetitionPenalty
        all["presence_penalty"] = presencePenalty
        all["frequency_penalty"] = frequencyPenalty
        all["special_text"] = specialText ? 1 : 0
        all["dry_multiplier"] = dryMultiplier
        all["dry_base"] = dryBase
        all["dry_allowed_length"] = dryAllowedLength.map { Double($0) }
        all["dry_penalty_last_n"] = dryPenaltyLastN.map { Double($0) }
        all["typical_p"] = typicalP
        all["xtc_probability"] = xtcProbability
        all["xtc_threshold"] = xtcThreshold
        all["dynatemp_range"] = dynatempRange
        all["dynatemp_exponent"] = dynatempExponent
        all["mirostat"] = mirostat.map { Double($0) }
        all["mirostat_tau"] = mirostatTau
        all["mirostat_eta"] = mirostatEta
        return all
    }

    /// Those of the file, as its model's authors set them.
    private static func numbersOfFile(_ runner: OpaquePointer) throws -> [String: Double] {
        let json = Data(String(cString: thimble_file_settings(runner)).utf8)
        return try JSONDecoder().decode([String: Double].self, from: json)
    }

    /// Makes a runner use them, all but the seed; `onToken` gets `context` if logprobs are asked for.
    func apply(
        to runner: OpaquePointer, _ onToken: thimble_token_callback, _ context: UnsafeMutableRawPointer
    ) throws {
        let settings = thimble_settings_new()
        defer { thimble_settings_free(settings) }
        let all = try Self.numbersOfFile(runner).merging(numbers) { _, given in given }
        for (name, value) in all {
            try check { thimble_settings_number(settings, name, value, $0, $1) }
        }
        if let logprobs {
            let top = Int32(clamping: logprobs)
            try check { thimble_settings_tokens(settings, top, onToken, context, $0, $1) }
        }
        for (token, value) in logitBias {
            try check { thimble_settings_bias(settings, token, value, $0, $1) }
        }
        for text in stop.map(\.bytes) {
            try check { thimble_settings_stop(settings, text, text.count, $0, $1) }
        }
        thimble_use_settings(runner, settings)
        let wanted = try constraint?.forC() ?? (kind: Int32(THIMBLE_ANY_TEXT), text: [])
        try check { thimble_constrain(runner, wanted.kind, wanted.text, wanted.text.count, $0, $1) }
    }
}
