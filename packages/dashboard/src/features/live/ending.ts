import { CLOSE } from "@roamfleet/protocol/paths";
import type { SocketEnding } from "@roamfleet/sdk/browser";

export interface Explained {
  /** A few words. */
  title: string;
  /** What it means and what to do. */
  text: string;
  /** later: another try may find it otherwise; offline: when the robot is back; never: somebody has to change something first. */
  again: "later" | "offline" | "never";
}

/** What the server says of an agent that has no streams yet: it has no close code of its own. */
const TOO_OLD = /agent is too old/;

/** Why a live stream ended, in words; undefined when it ended as it should. `what` is what it showed: `the shell`. */
export function explainEnding({ code, reason, was_open }: SocketEnding, what: string): Explained | undefined {
  switch (code) {
    case 1000:
      return undefined;
    case CLOSE.token_revoked:
      return { title: "Signed out", text: "Your session or token was revoked or has expired. Sign in again.", again: "never" };
    case CLOSE.role_lost:
      return {
        title: "Not allowed any more",
        text: `Your role here no longer reaches ${what}. An admin of the org can say why.`,
        again: "never",
      };
    case CLOSE.robot_removed:
      return { title: "Robot removed", text: "This robot was decommissioned: it answers to nobody here any more.", again: "never" };
    case CLOSE.agent_offline:
      return {
        title: "Robot offline",
        text: "The robot is not connected to the server. This works again when it is back.",
        again: "offline",
      };
    case CLOSE.ended_by_robot:
      if (TOO_OLD.test(reason))
        return {
          title: "Needs a newer agent",
          text: "The robot's agent is too old for live streams. Once a newer one is installed on the robot, this works.",
          again: "never",
        };
      return { title: "Ended by the robot", text: sentence(reason, "The robot ended it without saying why."), again: "later" };
    case CLOSE.too_many:
      return {
        title: "Too many streams",
        text: `${sentence(reason, "There is no room for another one.")} Close one that nobody needs and try again.`,
        again: "later",
      };
    case CLOSE.draining:
      return { title: "The server restarts", text: "It is stopping or starting anew; in a moment this works again.", again: "later" };
    case CLOSE.bad_message:
      return { title: "Not understood", text: sentence(reason, "The server did not understand what this page sent."), again: "later" };
    case 1006:
      return {
        title: was_open ? "Connection cut" : "Could not connect",
        text: was_open
          ? "The connection to the server broke."
          : "The server did not answer, or something between here and there did not let it through.",
        again: "later",
      };
    default:
      return { title: "Ended by the server", text: sentence(reason, `Code ${code}.`), again: "later" };
  }
}

/** What was said, as a sentence. */
function sentence(reason: string, otherwise: string): string {
  const text = reason.trim();
  if (text === "") return otherwise;
  return `${text[0]!.toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
}

/** Why the server refused a stream before it was open, by what it answers to a plain request for the same: `status` and `message`. */
export function explainRefusal(status: number, message: string): Explained | undefined {
  // The path opens WebSockets: nothing is wrong with the request, so it was the connection.
  if (status === 426) return undefined;
  if (status === 401) return { title: "Signed out", text: "Your session has ended. Sign in again.", again: "never" };
  if (status === 403) return { title: "Your role does not reach here", text: sentence(message, "It needs another role."), again: "never" };
  if (status === 404) return { title: "Not here", text: sentence(message, "There is no such robot."), again: "never" };
  if (status === 429) return { title: "Too many requests", text: sentence(message, "Wait a moment."), again: "later" };
  if (status === 400) return { title: "Not possible", text: sentence(message, "The server refuses what was asked for."), again: "never" };
  return { title: "The server refused", text: sentence(message, `It answered ${status}.`), again: "later" };
}
