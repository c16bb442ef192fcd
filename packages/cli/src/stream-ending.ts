import { CLOSE } from "@roamfleet/protocol/paths";
import type { Ending, Frame, Stream } from "@roamfleet/sdk";
import type { Context } from "./context.ts";
import { EXIT } from "./exit-codes.ts";
import { Failure } from "./failure.ts";

interface StreamWords {
  /** The action that the required role permits, such as `read these logs`. */
  right: string;
  /** Tip for the user: what to do after a lost connection. */
  again: string;
  /** True if nothing was printed to stdout yet, so that an error document may still be printed there. */
  nothing_printed?: boolean;
}

/**
 * Returns the Failure for the end of a stream; undefined for a normal end (1000). The Failure has an error document only with
 * `nothing_printed`, because stdout may already contain output of the stream.
 */
export function streamFailure({ code, reason }: Ending, { right, again, nothing_printed = false }: StreamWords): Failure | undefined {
  const none = nothing_printed ? {} : { document: undefined };
  const ended = (exit_code: Failure["exit_code"], message: string, ...hints: string[]): Failure =>
    new Failure(exit_code, message, { hints, ...none });
  switch (code) {
    case 1000:
      return undefined;
    case CLOSE.agent_offline:
      return new Failure(EXIT.agent_offline, "agent offline", {
        bare: true,
        ...none,
        hints: ["`rf robots show <id>` shows when the robot was last seen."],
      });
    case CLOSE.token_revoked:
      return ended(EXIT.auth, "the token was revoked or has expired", "Run `rf login` with a valid token.");
    case CLOSE.role_lost:
      return ended(EXIT.auth, `your role no longer allows you to ${right}`);
    case CLOSE.robot_removed:
      return ended(EXIT.not_found, "the robot was removed");
    case CLOSE.ended_by_robot:
      return ended(EXIT.error, `the robot ended the stream${reason === "" ? "" : `: ${reason}`}`);
    case CLOSE.too_many:
      return ended(EXIT.error, "too many open streams", "Close a stream and try again.");
    case CLOSE.draining:
      return ended(EXIT.error, "the server is restarting", "Run the command again in a moment.");
    case 1006:
      return ended(EXIT.error, "connection to the server lost", again);
    default:
      return ended(EXIT.error, `the server ended the stream (${code}${reason === "" ? "" : `, ${reason}`})`);
  }
}

/** Throws the Failure of a stream that has ended abnormally. */
export function throwEnding(stream: Stream, words: StreamWords): void {
  const failure = streamFailure(stream.ending ?? { code: 1006, reason: "" }, words);
  if (failure !== undefined) throw failure;
}

/**
 * Passes each frame to `take` until `take` returns false or `until` aborts. Throws if the stream ends abnormally or the user interrupts.
 */
export async function eachFrame(
  context: Context,
  open: (signal: AbortSignal) => Promise<Stream>,
  words: StreamWords,
  take: (frame: Frame) => boolean | Promise<boolean>,
  until = new AbortController().signal,
): Promise<void> {
  const interrupted = context.interruptible();
  const signal = AbortSignal.any([interrupted, until]);
  try {
    const stream = await open(signal);
    let nothing_printed = true;
    for await (const frame of stream) {
      if (signal.aborted) break;
      nothing_printed = false;
      if (!(await take(frame))) return;
    }
    interrupted.throwIfAborted();
    if (!until.aborted) throwEnding(stream, { ...words, nothing_printed });
  } catch (error) {
    if (!until.aborted || interrupted.aborted) throw error;
  }
}
