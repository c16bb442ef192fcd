import { type Clock, timeLimit } from "@roamfleet/clock";
import { type HttpClient, httpClient, readText } from "../../http/request.ts";

const ASK_MS_MAX = 4_000;
/** Maximum bytes of one response. The names of a few thousand topics and nodes fit. */
const ANSWER_BYTES_MAX = 8 * 1024 * 1024;
/** Status for success. Each response of a ROS 1 master begins with a status: 1 success, 0 failure, -1 error. */
const SUCCESS = 1;

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

  /** Calls a method of the master and returns its result. Rejects if the call fails or takes longer than ASK_MS_MAX. */
  async ask(method: string, ...params: string[]): Promise<unknown> {
    using limit = timeLimit(this.#clock, ASK_MS_MAX, new Error(`the ROS master did not answer within ${ASK_MS_MAX} ms`));
    const body = callText(method, [this.#caller, ...params]);
    const headers = { "content-type": "text/xml" };
    const answer = await this.#http({ method: "POST", url: this.uri, headers, body, signal: limit.signal });
    const text = await readText(answer, ANSWER_BYTES_MAX);
    if (answer.status !== 200) throw new Error(`the ROS master returned HTTP status ${answer.status}`);
    const value = readAnswer(text);
    if (!Array.isArray(value) || value.length !== 3) throw new Error("this is not a ROS master");
    if (value[0] !== SUCCESS) throw new Error(`the ROS master refused ${method}`);
    return value[2];
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

/** Maximum nesting of arrays in a response. A real master never reaches it. */
const DEPTH_MAX = 16;
const ENTITIES: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };

/** Encodes an XML-RPC method call. All parameters are strings. */
export function callText(method: string, params: readonly string[]): string {
  const values = params.map((text) => `<param><value><string>${escape(text)}</string></value></param>`).join("");
  return `<?xml version="1.0"?><methodCall><methodName>${escape(method)}</methodName><params>${values}</params></methodCall>`;
}

/**
 * Parses the response to an XML-RPC call. It supports numbers, strings, booleans and arrays, which is all that a ROS master returns here.
 * Throws for a fault and for an invalid response. The library's parser is not used because it takes 13 MB of memory, and the agent polls a
 * ROS 1 master continuously.
 */
export function readAnswer(text: string): unknown {
  const tokens = tokensOf(text);
  if (tokens.shift() !== "<methodResponse>" || tokens.shift() !== "<params>" || tokens.shift() !== "<param>")
    throw new Error("this is not an XML-RPC response");
  return readValue(tokens, 0);
}

/** A cursor over the XML tags of a response and the texts between them. */
class Tokens {
  readonly #tokens: string[];
  #at = 0;

  constructor(tokens: string[]) {
    this.#tokens = tokens;
  }

  shift(): string | undefined {
    return this.#tokens[this.#at++];
  }

  get next(): string | undefined {
    return this.#tokens[this.#at];
  }
}

/** Splits a response into tags and texts, without the XML declaration and whitespace between tags. */
const tokensOf = (text: string): Tokens =>
  new Tokens((text.replace(/^\s*<\?[^>]*\?>/, "").match(/<[^<>]*>|[^<>]+/g) ?? []).filter((token) => token.trim() !== ""));

function readValue(tokens: Tokens, depth: number): unknown {
  if (depth > DEPTH_MAX) throw new Error("the response is nested too deeply");
  expect(tokens, "<value>");
  const head = tokens.shift();
  if (head === "</value>") return "";
  // In XML-RPC, a value without a type is a string.
  if (head !== undefined && !head.startsWith("<")) {
    expect(tokens, "</value>");
    return unescape(head);
  }
  const value = head === "<array>" ? readArray(tokens, depth) : readScalar(tokens, head);
  expect(tokens, "</value>");
  return value;
}

function readArray(tokens: Tokens, depth: number): unknown[] {
  const values: unknown[] = [];
  const data = tokens.shift();
  if (data === "<data>") {
    while (tokens.next === "<value>") values.push(readValue(tokens, depth + 1));
    expect(tokens, "</data>");
  } else if (data !== "<data/>") throw new Error("an array has no data");
  expect(tokens, "</array>");
  return values;
}

function readScalar(tokens: Tokens, head: string | undefined): unknown {
  const type = /^<(\w+)(\s*\/)?>$/.exec(head ?? "");
  if (type === null) throw new Error("a value has no type");
  if (type[2] !== undefined) return "";
  const body = tokens.next?.startsWith("<") === true ? "" : (tokens.shift() ?? "");
  expect(tokens, `</${type[1]}>`);
  if (type[1] === "string") return unescape(body);
  if (type[1] === "boolean") return body.trim() === "1";
  if (["int", "i4", "double"].includes(type[1]!)) return Number(body);
  throw new Error(`a value of type ${type[1]} is not supported`);
}

function expect(tokens: Tokens, tag: string): void {
  const token = tokens.shift();
  if (token !== tag) throw new Error(`the response has ${token ?? "its end"} instead of ${tag}`);
}

const escape = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

const unescape = (text: string): string =>
  text.replace(/&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|(\w+));/gi, (whole, decimal?: string, hex?: string, name?: string) => {
    if (name !== undefined) return ENTITIES[name] ?? whole;
    const code = decimal === undefined ? Number.parseInt(hex ?? "", 16) : Number(decimal);
    return code <= 0x10_ff_ff ? String.fromCodePoint(code) : whole;
  });
