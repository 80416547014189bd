/** What is wrong, what is allowed, what to do: one sentence. */
export class RunnerError extends Error {}

export interface LoadOptions {
  /** Is called as the file is read. Numbers of bytes. */
  onProgress?: (progress: { loaded: number; total: number }) => void;
  /** Also check the weights against the file's checksums. Default: false. */
  verify?: boolean;
  /**
   * Threads that compute, 1 to 16. Default: one for each core, at most 4. It is 1 where threads
   * cannot share memory: a page must be served with the headers Cross-Origin-Opener-Policy:
   * same-origin and Cross-Origin-Embedder-Policy: require-corp.
   */
  threads?: number;
}

export interface GenerateOptions {
  /** The most tokens of the answer. Default: until the model ends or the context is full. */
  maxNewTokens?: number;
  /** 0 to 100; 0, the default, is always the most likely token. */
  temperature?: number;
  /** Only the so many most likely tokens; 0, the default: all. */
  topK?: number;
  /** Only the most likely tokens with this share of the probability, 0 to 1. Default: 1. */
  topP?: number;
  /** Only tokens with this share of the most likely one's probability, 0 to 1. Default: 0. */
  minP?: number;
  /** Makes sampling repeatable. Default: a new one each time. */
  seed?: number | bigint;
  /** 0.01 to 100: logits of tokens that the text has are divided by it. Default: 1. */
  repetitionPenalty?: number;
  /** -2 to 2: taken from the logits of tokens that the answer has. Default: 0. */
  presencePenalty?: number;
  /** -2 to 2: taken from them as often as the answer has them. Default: 0. */
  frequencyPenalty?: number;
  /** 0 to 100: DRY, a penalty for tokens that go on with a repetition. Default: 0. */
  dryMultiplier?: number;
  /** 1 to 100: the base of DRY's penalty. Default: 1.75. */
  dryBase?: number;
  /** Tokens of a repetition that have no penalty of DRY. Default: 2. */
  dryAllowedLength?: number;
  /** The last tokens, in which DRY looks for repetitions. Default: 64. */
  dryPenaltyLastN?: number;
  /** 0 to 1: tokens whose surprise is nearest to the expected one. Default: 1. */
  typicalP?: number;
  /** 0 to 1: XTC, at a token with this probability. Default: 0. */
  xtcProbability?: number;
  /** 0 to 1: of the tokens so likely, XTC leaves only the least likely. Default: 0.1. */
  xtcThreshold?: number;
  /** 0 to 100: temperature is lower or higher by it, with the entropy. Default: 0. */
  dynatempRange?: number;
  /** 0 to 100: the power of the entropy that temperature follows. Default: 1. */
  dynatempExponent?: number;
  /** 0 to 2: Mirostat 1 or 2 in place of the filters of tokens. Default: 0. */
  mirostat?: number;
  /** 0 to 100: Mirostat's target, in bits of surprise a token. Default: 5. */
  mirostatTau?: number;
  /** 0 to 1: how fast Mirostat learns. Default: 0.1. */
  mirostatEta?: number;
  /** -100 to 100, added to the logits of tokens, by id; -100 bans a token. */
  logitBias?: { [token: number]: number };
  /** The answer ends before one of these texts. */
  stop?: string | string[];
  /** Special tokens that the model writes are part of the text. Default: false. */
  specialText?: boolean;
  /** Collects each token's log-probability, and so many most likely tokens, 0 to 20: see `logprobs`. */
  logprobs?: number;
  /** The answer is JSON that this schema describes; a string is the schema as JSON. */
  jsonSchema?: object | boolean | string;
  /** The answer is a text that this regular expression matches as a whole. */
  regex?: string;
  /** The answer is one of these texts. */
  choice?: string[];
  /** The answer is a text of this GBNF grammar, llama.cpp's notation. */
  grammar?: string;
}

export interface ChatOptions extends GenerateOptions {
  /** Replaces the system message. */
  system?: string;
}

export interface Message {
  role: "user" | "assistant";
  content: string;
}

/** A conversation of its own beside the model's others. */
export interface Chat {
  /**
   * Answers the next message; yields the text in pieces. Leaving the loop ends the answer.
   * @throws RunnerError
   */
  say(message: string, options?: ChatOptions): AsyncGenerator<string, void, void>;
  /** Removes every turn; the system message stays. */
  reset(): Promise<void>;
}

export interface ModelInfo {
  name: string;
  /** Of the file, in bytes. */
  size: number;
  /** Whether the file has a chat template. Without one, chat() is refused. */
  hasTemplate: boolean;
}

/** The statistics of an answer, as the command line's `--json` writes them; times in seconds. */
export interface Stats {
  runs_with: string;
  threads: number;
  load_s: number;
  ttft_s: number;
  prompt_tokens: number;
  cached_tokens: number;
  /** Computed again, because the text's new length changed its rotary table. */
  recomputed_tokens: number;
  /** Rows of pictures that were computed for the prompts. */
  image_rows: number;
  generated_tokens: number;
  prefill_tokens_per_s: number;
  decode_tokens_per_s: number;
  peak_memory_bytes: number;
  /** An answer with a constraint has ended before it was complete. */
  incomplete: boolean;
  /** What was left out of the answer's schema, by its places, where that is allowed. */
  left_out: string[];
  stop_reason: "eos" | "complete" | "length" | "context_full" | "interrupted" | "stop";
  /** Of chat(): the oldest turns that no longer fitted the context. */
  dropped_turns?: number;
  [name: string]: string | string[] | number | boolean | undefined;
}

/** A token of an answer, and how likely the model found it. */
export interface Token {
  id: number;
  /** The natural logarithm of its probability, before penalties, temperature and constraint. */
  logprob: number;
  /** What it adds to the text: perhaps a part of a character. */
  bytes: Uint8Array;
  /** The most likely tokens in its place, the most likely first; they have no list themselves. */
  top?: Token[];
}

/** A loaded model in a worker of its own. One call at a time. */
export interface Model {
  readonly info: ModelInfo;
  /** Of the last answer; null before it. */
  readonly stats: Stats | null;
  /** The last answer's tokens, if its options had `logprobs`; else none. */
  readonly logprobs: Token[];
  /**
   * Continues a prompt; yields the text in pieces. Leaving the loop ends the answer.
   * @throws RunnerError
   */
  generate(prompt: string, options?: GenerateOptions): AsyncGenerator<string, void, void>;
  /**
   * Answers the next message of the conversation, which the model keeps.
   * @throws RunnerError also if the file has no chat template
   */
  chat(message: string, options?: ChatOptions): AsyncGenerator<string, void, void>;
  /** Removes every turn of the conversation; the system message stays. */
  resetChat(): Promise<void>;
  /**
   * Begins another conversation, to which chat() does not belong. `messages` were said before:
   * the user's and the assistant's in turn.
   * @throws RunnerError also if the file has no chat template
   */
  newChat(options?: { system?: string; messages?: Message[] }): Promise<Chat>;
  /** Ends the answer at work after its next token; it keeps what it has. */
  stop(): void;
  /** Ends the worker, and with it the model's memory. */
  free(): void;
}

/**
 * Loads a `.pte` that was exported with `--delegate cpu`.
 * @param source a URL, relative to the page or absolute; a path in node; a file; or its bytes
 * @throws RunnerError the file is damaged, made for another delegate, or too large
 */
export function load(
  source: string | URL | Blob | ArrayBuffer | ArrayBufferView,
  options?: LoadOptions,
): Promise<Model>;
