/**
 * An error that the user who starts the server must fix. The message states the problem and the fix, and is printed without a stack trace.
 */
export class Refusal extends Error {
  override name = "Refusal";
}
