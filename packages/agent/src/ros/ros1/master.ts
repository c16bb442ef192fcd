import { createConnection } from "node:net";
import type { Clock } from "@roamfleet/clock";
import { type HttpClient, httpClient, readText } from "../../http/request.ts";
import { callText, readAnswer } from "./xml-rpc.ts";

const ASK_MS_MAX = 4_000;
const CONNECT_MS_MAX = 2_000;
/** Per response: the names of a few thousand topics and nodes. */
const ANSWER_BYTES_MAX = 8 * 1024 * 1024;
/** First element of every response in ROS 1: 1 success, 0 failure, -1 error. */
const SUCCESS = 1;

/** The ROS 1 master (roscore), by XML-RPC. */
export class Ros1Master {
  readonly uri: string;
  readonly #http: HttpClient;
  readonly #clock: Clock;
  readonly #caller: string;

  constructor(options: { uri: string; clock: Clock; caller: string }) {
    this.uri = options.uri;
    this.#clock = options.clock;
    this.#caller = options.caller;
    this.#http = httpClient(options.clock);
  }

  /** Calls a method of the master and returns its value; rejects after a failure, or after ASK_MS_MAX. */
  async ask(method: string, ...params: string[]): Promise<unknown> {
    const over = new AbortController();
    const timer = this.#clock.setTimer(ASK_MS_MAX, () => over.abort(new Error(`the ROS master did not answer within ${ASK_MS_MAX} ms`)));
    try {
      const body = callText(method, [this.#caller, ...params]);
      const answer = await this.#http({
        method: "POST",
        url: this.uri,
        headers: { "content-type": "text/xml" },
        body,
        signal: over.signal,
      });
      const text = await readText(answer, ANSWER_BYTES_MAX);
      if (answer.status !== 200) throw new Error(`the ROS master answered ${answer.status}`);
      const value = readAnswer(text);
      if (!Array.isArray(value) || value.length !== 3) throw new Error("this is not a ROS master");
      if (value[0] !== SUCCESS) throw new Error(`the ROS master refused ${method}`);
      return value[2];
    } finally {
      timer.cancel();
    }
  }

  /** Returns the value of a parameter; undefined if it is not set or not a string. */
  async textParameter(name: string): Promise<string | undefined> {
    try {
      const value = await this.ask("getParam", name);
      return typeof value === "string" ? value.trim() : undefined;
    } catch {
      return undefined;
    }
  }
}

/** Returns this machine's address on the route to a host; undefined if the host does not accept a connection. */
export function addressTowards(uri: string, clock: Clock, signal: AbortSignal): Promise<string | undefined> {
  return new Promise((resolve) => {
    if (signal.aborted || !URL.canParse(uri)) return resolve(undefined);
    const { hostname, port } = new URL(uri);
    const socket = createConnection({ host: hostname.replace(/^\[|\]$/g, ""), port: Number(port === "" ? 80 : port) });
    const end = (): void => {
      timer.cancel();
      signal.removeEventListener("abort", end);
      const address = socket.localAddress;
      resolve(socket.readyState === "open" ? address : undefined);
      socket.destroy();
    };
    const timer = clock.setTimer(CONNECT_MS_MAX, end);
    signal.addEventListener("abort", end, { once: true });
    socket.once("connect", end);
    socket.once("error", end);
  });
}
