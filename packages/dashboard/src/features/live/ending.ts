import { CLOSE } from "@roamfleet/protocol/paths";
import type { SocketEnding } from "@roamfleet/sdk/browser";
import { sentence } from "../../ui/format.ts";

export interface Explained {
  /** A short title. */
  title: string;
  /** The explanation and the next step. */
  text: string;
  /** later: a retry may succeed; offline: retry when the robot reconnects; never: a retry fails until a user changes something. */
  again: "later" | "offline" | "never";
  /** Whether the server refused the query parameters of the request. */
  is_bad_query?: boolean;
}

/** Matches the server's close reason for an agent without stream support, because there is no separate close code for it. */
const TOO_OLD = /agent is too old/;

/** Explains why a live stream ended; undefined for a normal end. `what` names the stream, such as `the shell`. */
export function explainEnding({ code, reason, was_open }: SocketEnding, what: string): Explained | undefined {
  switch (code) {
    case 1000:
      return undefined;
    case CLOSE.token_revoked:
      return { title: "Signed out", text: "Your session or token was revoked or has expired. Sign in again.", again: "never" };
    case CLOSE.role_lost:
      return {
        title: "Access removed",
        text: `You no longer have access to ${what}. Ask an admin of your organization.`,
        again: "never",
      };
    case CLOSE.robot_removed:
      return { title: "Robot removed", text: "This robot was decommissioned. It no longer connects to this server.", again: "never" };
    case CLOSE.agent_offline:
      return {
        title: "Robot not connected",
        text: "This page continues automatically when the robot connects.",
        again: "offline",
      };
    case CLOSE.ended_by_robot:
      if (TOO_OLD.test(reason))
        return {
          title: "Agent too old",
          text: "The robot's agent is too old for live streams. Update the agent on the robot.",
          again: "never",
        };
      return { title: "Ended by the robot", text: sentence(reason, "The robot ended the stream without a reason."), again: "later" };
    case CLOSE.too_many:
      return {
        title: "Too many streams",
        text: `${sentence(reason, "The limit of open streams is reached.")} Close another stream and try again.`,
        again: "later",
      };
    case CLOSE.draining:
      return { title: "Server restarting", text: "The server is restarting. Try again in a moment.", again: "later" };
    case CLOSE.bad_message:
      return {
        title: "Invalid message",
        text: sentence(reason, "The server rejected a message from this page as invalid."),
        again: "later",
      };
    case 1006:
      return {
        title: was_open ? "Connection lost" : "Connection failed",
        text: was_open
          ? "The server stopped responding, or the network was interrupted."
          : "The server is not responding, or a proxy or firewall blocks the connection.",
        again: "later",
      };
    default:
      return { title: "Ended by the server", text: sentence(reason, `The server ended the stream with code ${code}.`), again: "later" };
  }
}

/** Explains why the server refused a stream, from the `status` and `message` of a plain HTTP request to the same path. */
export function explainRefusal(status: number, message: string): Explained | undefined {
  // 426 means that the server accepts a WebSocket on this path. So the server did not refuse the stream; the connection failed.
  if (status === 426) return undefined;
  if (status === 401) return { title: "Signed out", text: "Your session has ended. Sign in again.", again: "never" };
  if (status === 403)
    return {
      title: "You don't have access",
      text: sentence(message, "Your role does not allow this. Ask an admin of your organization."),
      again: "never",
    };
  if (status === 404) return { title: "Not found", text: sentence(message, "The robot does not exist."), again: "never" };
  if (status === 429) return { title: "Too many requests", text: sentence(message, "Wait a moment and try again."), again: "later" };
  if (status === 400)
    return { title: "Request refused", text: sentence(message, "The server refused the request."), again: "never", is_bad_query: true };
  return { title: "Request failed", text: sentence(message, `The server responded with status ${status}.`), again: "later" };
}
