/**
 * An error that the person who starts the server must fix. The message states what is wrong and what to do, and is printed without a stack.
 */
export class Refusal extends Error {
  override name = "Refusal";
}
