import { gzipSync, deflateSync, brotliCompressSync } from "node:zlib";
import type { TObject, TSchema } from "typebox";

const MIB = 1024 * 1024;

/** An invalid body with the headers of its request. */
export interface HostileBody {
  name: string;
  bytes: Buffer;
  headers?: Record<string, string>;
}

const deep = (levels: number): string => "[".repeat(levels) + "]".repeat(levels);

/** JSON text of hostile values, most of which JavaScript cannot represent. */
const VALUES: Record<string, string> = {
  "10,000 arrays": deep(10_000),
  "10,000 objects": '{"a":'.repeat(10_000) + "1" + "}".repeat(10_000),
  NUL: '"a\\u0000b"',
  "a lone high surrogate": '"\\ud800"',
  "a lone low surrogate": '"x\\udc00"',
  "an infinite number": "1e400",
  "a number of 500,000 digits": "9".repeat(500_000),
  __proto__: '{"__proto__":{"admin":true}}',
  "__proto__ below": '{"a":[{"__proto__":1}]}',
  "a name twice": '{"a":1,"a":2}',
  "a name twice, once escaped": '{"a":1,"\\u0061":2}',
  "NUL in a name": '{"\\u0000":1}',
  "a lone surrogate in a name": '{"\\udfff":1}',
};

const TEXT_OF_900_KB = JSON.stringify("x".repeat(900_000));
const NAMES_100_000 = `{${Array.from({ length: 60_000 }, (_, at) => `"k${at}":0`).join(",")}}`;

/** Text that is not JSON, or not an object. */
const BROKEN: Record<string, string | Buffer> = {
  null: "null",
  "an array": "[]",
  "a string": '"text"',
  "a number": "1",
  "two documents": "{} {}",
  "a comment": "{/* */}",
  "single quotes": "{'a':1}",
  "an end too early": '{"a":',
  "an end too late": "{}}",
  NaN: '{"a":NaN}',
  "a bare NUL": "\0",
  "a NUL behind": "{}\0",
  "bytes that are no UTF-8": Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d]),
  "an overlong slash": Buffer.from([0x7b, 0x22, 0xc0, 0xaf, 0x22, 0x3a, 0x31, 0x7d]),
  "a surrogate in UTF-8": Buffer.from([0x7b, 0x22, 0xed, 0xa0, 0x80, 0x22, 0x3a, 0x31, 0x7d]),
  "half a character": Buffer.from([0x7b, 0x22, 0xf0, 0x9f]),
  "UTF-16": Buffer.from('{"name":"x"}', "utf16le"),
  "half a mebibyte of brackets": "[".repeat(MIB / 2),
  "a mebibyte of quotes": '"'.repeat(MIB - 1),
};

const isFree = (schema: TSchema): boolean => !("type" in schema || "anyOf" in schema || "enum" in schema || "const" in schema);

/** Serializes `sample` to JSON, with the value of one field replaced by raw JSON text. */
function withField(sample: Record<string, unknown>, field: string, json: string): Buffer {
  const rest = Object.entries(sample).filter(([name]) => name !== field);
  const fields = [...rest.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`), `${JSON.stringify(field)}:${json}`];
  return Buffer.from(`{${fields.join(",")}}`);
}

/** Generates bodies that a route with this schema must refuse, from a valid `sample`. */
export function* hostileBodies(schema: TObject | undefined, sample: Record<string, unknown>): Generator<HostileBody> {
  const text = JSON.stringify(sample);
  yield { name: "more than 1 MiB of spaces", bytes: Buffer.from(text + " ".repeat(MIB)) };
  yield { name: "2 MiB in a field", bytes: withField(sample, "name", JSON.stringify("x".repeat(2 * MIB))) };
  for (const [name, bytes] of Object.entries(BROKEN)) yield { name, bytes: Buffer.from(bytes) };
  for (const [name, json] of Object.entries(VALUES))
    yield { name: `${name} in an unknown field`, bytes: withField(sample, "unknown", json) };
  yield { name: "60,000 unknown fields", bytes: Buffer.from(NAMES_100_000) };
  yield { name: "60,000 names in a field", bytes: withField(sample, "unknown", NAMES_100_000) };
  for (const name of ["__proto__", "constructor", "prototype", "toString", "hasOwnProperty"])
    yield { name: `a field ${name}`, bytes: withField(sample, name, '{"prototype":{"admin":true}}') };
  for (const [field, property] of Object.entries((schema?.properties ?? {}) as Record<string, TSchema>)) {
    for (const [name, json] of Object.entries(VALUES)) yield { name: `${name} as ${field}`, bytes: withField(sample, field, json) };
    if (!isFree(property)) yield { name: `a text of 900 kB as ${field}`, bytes: withField(sample, field, TEXT_OF_900_KB) };
    const twice = `${text.slice(0, -1)}${text === "{}" ? "" : ","}${JSON.stringify(field)}:1,${JSON.stringify(field)}:1}`;
    yield { name: `${field} twice`, bytes: Buffer.from(twice) };
  }
  yield* encoded(text);
}

/** A gzip bomb, created once. */
const BOMB = gzipSync(Buffer.alloc(100 * MIB, "["), { level: 9 });

function* encoded(text: string): Generator<HostileBody> {
  yield { name: "a gzip bomb", bytes: BOMB, headers: { "content-encoding": "gzip" } };
  yield { name: "a gzip bomb without content-encoding", bytes: BOMB };
  yield { name: "gzip", bytes: gzipSync(text), headers: { "content-encoding": "gzip" } };
  yield { name: "deflate", bytes: deflateSync(text), headers: { "content-encoding": "deflate" } };
  yield { name: "brotli", bytes: brotliCompressSync(text), headers: { "content-encoding": "br" } };
  yield { name: "an unknown encoding", bytes: Buffer.from(text), headers: { "content-encoding": "x-none" } };
  for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonp", "x"])
    yield { name: `as ${type}`, bytes: Buffer.from(text === "{}" ? '{"a":1}' : text), headers: { "content-type": type } };
}

/**
 * Requests with a wrong or ambiguous length: the text after the request line, and whether the client then ends its side of the connection.
 */
export const HOSTILE_LENGTHS: Record<string, { text: string; ends?: boolean }> = {
  "longer than the body, then the end": { text: "content-length: 500\r\n\r\n{", ends: true },
  "shorter than the body": { text: 'content-length: 3\r\n\r\n{"name":"a smuggled request"}\r\n\r\n' },
  negative: { text: "content-length: -1\r\n\r\n{}" },
  "no number": { text: "content-length: abc\r\n\r\n{}" },
  "a sign": { text: "content-length: +2\r\n\r\n{}" },
  "beyond all numbers": { text: "content-length: 99999999999999999999999\r\n\r\n{}" },
  "beyond the limit": { text: "content-length: 9007199254740991\r\n\r\n{}" },
  twice: { text: "content-length: 2\r\ncontent-length: 3\r\n\r\n{}" },
  "and chunks": { text: "content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n" },
  "chunks twice": { text: "transfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n" },
  "chunks that are not the last": { text: "transfer-encoding: chunked, gzip\r\n\r\n0\r\n\r\n" },
  "a chunk with an invalid size": { text: "transfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n" },
  "a chunk beyond all numbers": { text: "transfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n{}" },
  "a truncated chunk": { text: "transfer-encoding: chunked\r\n\r\nff\r\n{", ends: true },
  "a chunk longer than its size": { text: "transfer-encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n" },
};
