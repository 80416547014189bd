/** What is wrong, what is allowed, what to do: one sentence. */
export class RunnerError extends Error {
  name = "RunnerError";
}
