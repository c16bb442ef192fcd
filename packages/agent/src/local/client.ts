import { type IncomingMessage, request } from "node:http";
import { errorCode } from "../disk/write-atomically.ts";
import { KEEP_ALIVE_MS } from "./events.ts";
import { readAll } from "../runtime/byte-reader.ts";

/** Maximum wait for the agent's response. An agent that takes longer is stuck. */
const ANSWER_TIMEOUT_MS = 15_000;
const ANSWER_BYTES_MAX = 64 * 1024 * 1024;
/**
 * Idle timeout of an event stream. The agent sends keep-alives while there are no events; late ones are tolerated.
 */
const EVENTS_SILENCE_MS = 3 * KEEP_ALIVE_MS;

/** The agent cannot be reached at the socket. */
export class AgentUnreachable extends Error {}

/** No agent runs. An agent that runs but does not answer or denies access is another case of AgentUnreachable. */
export class AgentAbsent extends AgentUnreachable {}

/**
 * An error response of the agent, with its code (`locked`, `update_in_progress`, `not_found`, …) and its message.
 */
export class AgentRefused extends Error {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

function open(socket: string, method: string, path: string, headers: Record<string, string>, body?: unknown): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const call = request({ socketPath: socket, method, path, headers, agent: false, timeout: ANSWER_TIMEOUT_MS });
    call.once("response", resolve);
    call.once("timeout", () => call.destroy(new AgentUnreachable(`the agent at ${socket} does not answer`)));
    call.once("error", (error) => {
      const code = errorCode(error);
      if (code === "EACCES") return reject(new AgentUnreachable(`this user may not use ${socket}`));
      if (code === "ENOENT" || code === "ECONNREFUSED") return reject(new AgentAbsent(`no agent listens at ${socket}`));
      if (code === "ECONNRESET" || code === "EPIPE") return reject(new AgentUnreachable(`the agent at ${socket} stopped or is too busy`));
      reject(error);
    });
    call.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

const tooLarge = (): Error => new Error("the agent's response is too large");
const readText = async (response: IncomingMessage): Promise<string> =>
  (await readAll(response, ANSWER_BYTES_MAX, tooLarge)).toString("utf8");

/** Calls the agent at a unix socket and returns the response's `data`. Throws AgentUnreachable, AgentRefused. */
export async function askAgent<T>(socket: string, method: string, path: string, body?: unknown): Promise<T> {
  const response = await open(socket, method, path, body === undefined ? {} : { "content-type": "application/json" }, body);
  const answer = JSON.parse(await readText(response)) as { data?: T; error?: { code: string; message: string } };
  if (answer.error !== undefined) throw new AgentRefused(response.statusCode ?? 0, answer.error.code, answer.error.message);
  return answer.data as T;
}

/**
 * Yields the id, type and data of each event until the agent ends the stream. Throws AgentUnreachable, AgentRefused.
 */
export async function* readEvents(socket: string, last_event_id?: string): AsyncGenerator<{ id: string; type: string; data: unknown }> {
  const response = await open(socket, "GET", "/v1/events", last_event_id === undefined ? {} : { "last-event-id": last_event_id });
  if (response.statusCode !== 200) {
    const { error } = JSON.parse(await readText(response)) as { error: { code: string; message: string } };
    throw new AgentRefused(response.statusCode ?? 0, error.code, error.message);
  }
  response.socket.setTimeout(EVENTS_SILENCE_MS);
  let text = "";
  for await (const chunk of response as AsyncIterable<Buffer>) {
    text += chunk.toString("utf8");
    const blocks = text.split("\n\n");
    text = blocks.pop() ?? "";
    for (const block of blocks) {
      const fields = new Map(
        block.split("\n").map((line): [string, string] => [line.split(": ", 1)[0] ?? "", line.slice(line.indexOf(": ") + 2)]),
      );
      const [id, type, data] = [fields.get("id"), fields.get("event"), fields.get("data")];
      if (id !== undefined && type !== undefined && data !== undefined) yield { id, type, data: JSON.parse(data) as unknown };
    }
  }
}
