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

/// The options of an answer. Those that are not set have no effect.
///
/// A token is chosen by the model's logits, changed in this order: logit biases, repetition, presence
/// and frequency penalty, DRY, the constraint, temperature, topK, typicalP, topP, minP, XTC. Temperature
/// is the last with typicalP, XTC or dynatempRange; with mirostat, that alone follows it.
public struct AnswerOptions: Sendable {
    /// The most tokens; 0: until the model ends or the context is full.
    public var maxNewTokens = 0
    /// 0 to 100, by which logits are divided; 0: always the most likely token.
    public var temperature: Float = 0
    /// Samples from so many of the most likely tokens; 0: from all.
    public var topK = 0
    /// 0 to 1: the smallest set of tokens whose probabilities add up to it.
    public var topP: Float = 1
    /// 0 to 1: tokens at least so many times as likely as the most likely one.
    public var minP: Float = 0
    /// Makes sampling repeatable; nil: a new seed every time.
    public var seed: UInt64?
    /// 0.01 to 100: divides logits above 0 of tokens that the text has.
    public var repetitionPenalty = 1.0
    /// -2 to 2: is taken from the logits of tokens that the answer has.
    public var presencePenalty = 0.0
    /// -2 to 2: is taken from them as often as the answer has the token.
    public var frequencyPenalty = 0.0
    /// 0 to 100: DRY, a penalty for tokens that go on with a repetition.
    public var dryMultiplier = 0.0
    /// 1 to 100: the base of DRY's penalty.
    public var dryBase = 1.75
    /// Tokens of a repetition that have no penalty of DRY.
    public var dryAllowedLength = 2
    /// The last tokens, in which DRY looks for repetitions.
    public var dryPenaltyLastN = 64
    /// 0 to 1: tokens whose surprise is nearest to the expected one.
    public var typicalP = 1.0
    /// 0 to 1: XTC, at a token with this probability.
    public var xtcProbability = 0.0
    /// 0 to 1: of the tokens so likely, XTC leaves only the least likely.
    public var xtcThreshold = 0.1
    /// 0 to 100: temperature is lower or higher by it, with the entropy.
    public var dynatempRange = 0.0
    /// 0 to 100: the power of the entropy that temperature follows.
    public var dynatempExponent = 1.0
    /// 0 to 2: Mirostat 1 or 2 in place of the filters of tokens.
    public var mirostat = 0
    /// 0 to 100: Mirostat's target, in bits of surprise a token.
    public var mirostatTau = 5.0
    /// 0 to 1: how fast Mirostat learns.
    public var mirostatEta = 0.1
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

    /// The numbers of thimble_settings_number(), by their names there.
    private var numbers: KeyValuePairs<String, Double> {
        [
            "max_new_tokens": Double(maxNewTokens), "temperature": Double(temperature),
            "top_k": Double(topK), "top_p": Double(topP), "min_p": Double(minP),
            "repetition_penalty": repetitionPenalty, "presence_penalty": presencePenalty,
            "frequency_penalty": frequencyPenalty, "special_text": specialText ? 1 : 0,
            "dry_multiplier": dryMultiplier, "dry_base": dryBase,
            "dry_allowed_length": Double(dryAllowedLength), "dry_penalty_last_n": Double(dryPenaltyLastN),
            "typical_p": typicalP, "xtc_probability": xtcProbability,
            "xtc_threshold": xtcThreshold, "dynatemp_range": dynatempRange,
            "dynatemp_exponent": dynatempExponent, "mirostat": Double(mirostat),
            "mirostat_tau": mirostatTau, "mirostat_eta": mirostatEta,
        ]
    }

    /// Makes a runner use them, all but the seed; `onToken` gets `context` if logprobs are asked for.
    func apply(
        to runner: OpaquePointer, _ onToken: thimble_token_callback, _ context: UnsafeMutableRawPointer
    ) throws {
        let settings = thimble_settings_new()
        defer { thimble_settings_free(settings) }
        for (name, value) in numbers {
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
