/** Deeper than any response of a master. */
const DEPTH_MAX = 16;
const ENTITIES: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };

/** Encodes a call of a method with strings as XML. */
export function callText(method: string, params: readonly string[]): string {
  const values = params.map((text) => `<param><value><string>${escape(text)}</string></value></param>`).join("");
  return `<?xml version="1.0"?><methodCall><methodName>${escape(method)}</methodName><params>${values}</params></methodCall>`;
}

/**
 * Parses a method's response: numbers, strings, booleans and arrays of them, which is all that a ROS master returns here. Throws for a fault, and for
 * an invalid response. The library's parser takes 13 MB of memory, and a robot with ROS 1 is polled continuously.
 */
export function readAnswer(text: string): unknown {
  const tokens = tokensOf(text);
  if (tokens.shift() !== "<methodResponse>" || tokens.shift() !== "<params>" || tokens.shift() !== "<param>")
    throw new Error("this is not an XML-RPC response");
  return readValue(tokens, 0);
}

/** A stream of tags, and of texts between them. */
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

/** The XML declaration and whitespace are dropped. */
const tokensOf = (text: string): Tokens =>
  new Tokens((text.replace(/^\s*<\?[^>]*\?>/, "").match(/<[^<>]*>|[^<>]+/g) ?? []).filter((token) => token.trim() !== ""));

function readValue(tokens: Tokens, depth: number): unknown {
  if (depth > DEPTH_MAX) throw new Error("the answer is nested too deep");
  expect(tokens, "<value>");
  const head = tokens.shift();
  if (head === "</value>") return "";
  // A value without a type is a string.
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
  throw new Error(`a value of type ${type[1]} is not read here`);
}

function expect(tokens: Tokens, tag: string): void {
  const token = tokens.shift();
  if (token !== tag) throw new Error(`the answer has ${token ?? "its end"} where ${tag} should be`);
}

const escape = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

const unescape = (text: string): string =>
  text.replace(/&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|(\w+));/gi, (whole, decimal?: string, hex?: string, name?: string) => {
    if (name !== undefined) return ENTITIES[name] ?? whole;
    const code = decimal === undefined ? Number.parseInt(hex ?? "", 16) : Number(decimal);
    return code <= 0x10_ff_ff ? String.fromCodePoint(code) : whole;
  });
