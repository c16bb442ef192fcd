import { CLOSE } from "@robofleet/protocol/paths";
import type { Ending } from "@robofleet/sdk";
import { EXIT } from "./exit-codes.ts";
import { Failure } from "./failure.ts";

export interface StreamWords {
  /** What a role allows here: `read these logs`. */
  right: string;
  /** What to do when the connection was cut. */
  again: string;
  /** Nothing of the stream was printed to stdout, so that the document of an error has its place there. */
  nothing_printed?: boolean;
}

/**
 * A stream that ended by itself, in words; undefined when it ended as it should (1000). What the stream brought was printed to
 * stdout, so no document of an error goes there.
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
        hints: ["`rf robots show <id>` tells when it was last seen."],
      });
    case CLOSE.token_revoked:
      return ended(EXIT.auth, "the token was revoked or has expired", "Run `rf login` with another one.");
    case CLOSE.role_lost:
      return ended(EXIT.auth, `the role that may ${right} was taken away`);
    case CLOSE.robot_removed:
      return ended(EXIT.not_found, "the robot was removed");
    case CLOSE.ended_by_robot:
      return ended(EXIT.error, `the robot ended the stream${reason === "" ? "" : `: ${reason}`}`);
    case CLOSE.too_many:
      return ended(EXIT.error, "there are too many streams already", "Close another one and try again.");
    case CLOSE.draining:
      return ended(EXIT.error, "the server is restarting", "Run the command again in a moment.");
    case 1006:
      return ended(EXIT.error, "the connection to the server was cut", again);
    default:
      return ended(EXIT.error, `the server ended the stream (${code}${reason === "" ? "" : `, ${reason}`})`);
  }
}
