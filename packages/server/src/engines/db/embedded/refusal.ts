/**
 * Something the person who starts the server has to change: the message says what is wrong and what to do next.
 * It is meant to be printed as it is, without a stack.
 */
export class Refusal extends Error {
  override name = "Refusal";
}

/** The `code` of a Node error such as ENOENT; undefined for anything else. */
export function errorCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}
