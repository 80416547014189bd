// The options of an answer, checked and as thimble.h has them.

import { RunnerError } from "./errors.mjs";

export const OPTIONS_BYTES = 32;
const MOST_COUNT = 2 ** 31 - 1;
const CONSTRAINTS = ["jsonSchema", "regex", "choice", "grammar"]; // their kinds are 1 to 4

/** Writes thimble_options to an address of a view: the seed. Other numbers are in the settings. */
export function writeOptions(view, at, { seed }) {
  for (let i = 0; i < OPTIONS_BYTES; i += 8) view.setBigUint64(at + i, 0n, true);
  view.setFloat32(at + 16, 1, true); // top_p
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

/**
 * The numbers of thimble_settings_number() that are given, by their names there.
 * @param {object} options
 * @param {{name: string, type: string, low: number, high: number}[]} numbers of
 *   thimble_answer_numbers(); options have their names in camel case
 * @param {object} sampling of thimble_file_settings(): what counts where nothing is given
 */
export function numbersOf(options, numbers, sampling = {}) {
  const found = [];
  for (const { name, type, low, high } of numbers) {
    const own = name.replace(/_(.)/g, (_, letter) => letter.toUpperCase());
    const value = options[own] ?? sampling[name];
    if (value === undefined) continue;
    // What is no whole number is told by the option's name here; the runner tells what else is wrong.
    const least = name === "max_new_tokens" ? 1 : low;
    if (type === "integer") whole(own, value, least, high);
    found.push([name, type === "boolean" ? Number(Boolean(value)) : Number(value)]);
  }
  return found;
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
