// The options of an answer, checked and as thimble.h has them.

import { RunnerError } from "./errors.mjs";

export const OPTIONS_BYTES = 32;
const MOST_COUNT = 2 ** 31 - 1;
const CONSTRAINTS = ["jsonSchema", "regex", "choice", "grammar"]; // their kinds are 1 to 4

/** Writes thimble_options to an address of a view. What is out of range, the runner says. */
export function writeOptions(view, at, options) {
  const { maxNewTokens, temperature = 0, topK = 0, topP = 1, minP = 0, seed } = options;
  const most = maxNewTokens === undefined ? 0 : whole("maxNewTokens", maxNewTokens, 1, MOST_COUNT);
  view.setBigInt64(at, BigInt(most), true);
  view.setFloat32(at + 8, temperature, true);
  view.setInt32(at + 12, whole("topK", topK, 0, MOST_COUNT), true);
  view.setFloat32(at + 16, topP, true);
  view.setFloat32(at + 20, minP, true);
  view.setBigUint64(at + 24, seed === undefined ? randomSeed() : seedOf(seed), true);
}

/** The one constraint of an answer: thimble_constrain()'s kind and text. */
export function constraintOf(options) {
  const given = CONSTRAINTS.filter((name) => options[name] !== undefined);
  if (given.length > 1) {
    throw new RunnerError(`${given.join(" and ")} are given, but an answer can have one constraint`);
  }
  if (given.length === 0) return { kind: 0, text: "" };
  const value = options[given[0]];
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return { kind: CONSTRAINTS.indexOf(given[0]) + 1, text };
}

/** The numbers of thimble_settings_number() that are given, by their names there. */
export function numbersOf(options) {
  const { repetitionPenalty, presencePenalty, frequencyPenalty, specialText } = options;
  const numbers = {
    repetition_penalty: repetitionPenalty,
    presence_penalty: presencePenalty,
    frequency_penalty: frequencyPenalty,
    special_text: specialText === undefined ? undefined : Number(specialText),
  };
  return Object.entries(numbers).filter(([, value]) => value !== undefined);
}

/** The biases of an answer: a token and a number each. */
export function biasesOf({ logitBias = {} }) {
  return Object.entries(logitBias).map(([token, bias]) => [
    whole("a token of logitBias", Number(token), 0, MOST_COUNT),
    bias,
  ]);
}

/** The texts at which an answer ends. */
export function stopsOf({ stop = [] }) {
  return typeof stop === "string" ? [stop] : stop;
}

function whole(name, value, low, high) {
  if (Number.isInteger(value) && low <= value && value <= high) return value;
  throw new RunnerError(`${name} is ${value}, but must be a whole number from ${low} to ${high}`);
}

function seedOf(seed) {
  if (typeof seed !== "bigint") return BigInt(whole("seed", seed, 0, Number.MAX_SAFE_INTEGER));
  if (seed === BigInt.asUintN(64, seed)) return seed;
  throw new RunnerError(`seed is ${seed}, but must be from 0 to ${2n ** 64n - 1n}`);
}

const randomSeed = () => crypto.getRandomValues(new BigUint64Array(1))[0];
