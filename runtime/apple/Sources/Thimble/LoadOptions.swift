import CThimble

/// How to run a model. All but the threads need one that was exported with --delegate cpu.
public struct LoadOptions: Sendable {
    /// The type of the key/value cache's numbers.
    public enum KVCache: Int32, Sendable {
        /// As the file says.
        case stored = 0
        case float16 = 1
        case float32 = 2
        case int8 = 3
        case int4 = 4
        /// Keys of int8, values of int4.
        case int8Int4 = 5
    }

    /// 1 to 256; 0 is chosen by the processor.
    public var threads: Int = 0
    public var kvCache: KVCache = .stored
    /// Loads only a file that the owner of this Ed25519 key signed: FILE.sig beside it must match
    /// every byte. The path of a file, or the text of its PEM; nil: no signature is needed.
    public var publicKey: String?

    public init(threads: Int = 0, kvCache: KVCache = .stored, publicKey: String? = nil) {
        self.threads = threads
        self.kvCache = kvCache
        self.publicKey = publicKey
    }

    var forC: thimble_load_options {
        let count = Int32(clamping: threads)
        return thimble_load_options(threads: count, cache_type: kvCache.rawValue, huge_pages: 0)
    }
}
