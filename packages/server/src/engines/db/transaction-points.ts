import { failpoint, failpointsArmed } from "@roamfleet/clock/failpoint";

const FRAMES_MAX = 60;
const OUR_FRAME =
  /^\s*at (?:async )?(?:(?<name>[^(]+?) )?\(?(?:file:\/\/)?[^\s()]*\/server\/src\/(?<file>(?:features|link|kernel)\/[^\s():]+)\.ts:/;

/**
 * The failpoints of one transaction, named after the function that started it: `features/sites/store.insertSite:before-commit`. The name is
 * taken from the call stack, so callers need not pass one. It is only computed when failpoints are armed.
 */
export class TransactionPoints {
  #name: string;
  #statements = 0;

  /** Returns the failpoints of the transaction that the caller is starting; undefined unless failpoints are armed. */
  static ofCaller(): TransactionPoints | undefined {
    return failpointsArmed() ? new TransactionPoints(callerName()) : undefined;
  }

  private constructor(name: string) {
    this.#name = name;
  }

  begun(): void {
    failpoint(`${this.#name}:begin`, "transaction");
  }

  /**
   * Counts the next statement. Call this before sending the statement. After its result, call the returned function, which is the
   * failpoint.
   */
  statement(): () => void {
    const caller = callerName();
    // If the kernel started the transaction (around a request), the failpoints are named after the feature that uses the transaction.
    if (this.#name.startsWith("kernel/") && !caller.startsWith("kernel/")) this.#name = caller;
    this.#statements += 1;
    const point = `${this.#name}:statement-${this.#statements}`;
    return () => failpoint(point, "transaction");
  }

  beforeCommit(): void {
    failpoint(`${this.#name}:before-commit`, "transaction");
  }

  /** Failpoint after the commit: the transaction is durable, but no client has been notified. */
  afterCommit(): void {
    failpoint(`${this.#name}:after-commit`, "transaction");
  }

  /**
   * Failpoints of a write outside of a transaction. Call this before the write, and the returned function after the write's result.
   */
  static lone(text: string): (() => void) | undefined {
    if (!failpointsArmed() || /^\s*(--[^\n]*\n\s*)*select\b/i.test(text)) return undefined;
    const name = callerName();
    failpoint(`${name}:before-write`, "statement");
    return () => failpoint(`${name}:after-write`, "statement");
  }
}

/** Returns the nearest function on the stack that is in a feature or the link, otherwise the nearest in the kernel. */
function callerName(): string {
  const before = Error.stackTraceLimit;
  Error.stackTraceLimit = FRAMES_MAX;
  const lines = (new Error().stack ?? "").split("\n");
  Error.stackTraceLimit = before;
  return nameFromStack(lines);
}

/** Exported for its test. */
export function nameFromStack(lines: readonly string[]): string {
  const frames = lines.flatMap((line) => {
    const { file, name } = OUR_FRAME.exec(line)?.groups ?? {};
    if (file === undefined) return [];
    const called = (name ?? "").split(".").at(-1)?.replace(/\W/g, "") ?? "";
    return [called === "" || called === "anonymous" ? file : `${file}.${called}`];
  });
  return frames.find((frame) => !frame.startsWith("kernel/")) ?? frames[0] ?? "elsewhere";
}
