import { readFile } from "node:fs/promises";
import { ApiError } from "@roamfleet/sdk";
import { collect, defineCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { usage } from "../failure.ts";
import { printBody } from "../response-body.ts";
import { readStdin } from "../secret.ts";
import { plain } from "../text.ts";
import { fieldsToObject } from "../values.ts";

const INPUT_BYTES_MAX = 1_073_741_824;
const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];

interface Options {
  field?: string[];
  rawField?: string[];
  input?: string;
  header?: string[];
  include?: boolean;
}

export const api = defineCommand<[string, string, Options]>(
  "Call any route of the service with your token, and print the response. Fields become the JSON body or, for GET, the query parameters. " +
    "The routes are described at /docs and in /openapi.json of the service.",
  (command) =>
    command
      .argument("<method>", METHODS.join(", "))
      .argument("<path>", "Path of the route, such as /api/robots?status=online")
      .option(
        "-F, --field <key=value>",
        "Field with a JSON value; a value that is not valid JSON is sent as text; @FILE reads the value from a file, @- from stdin (repeatable; nested: key[sub]=, key[]=)",
        collect,
      )
      .option("-f, --raw-field <key=value>", "Field with a text value (repeatable)", collect)
      .option("--input <file>", "File with the request body; - reads stdin")
      .option("-H, --header <name:value>", "Header of the request (repeatable)", collect)
      .option("-i, --include", "Print the response status and headers before the body"),
  async (context, word, given, options) => {
    const method = word.toUpperCase();
    if (!METHODS.includes(method)) throw usage(`${word} is not an HTTP method`, `Use one of ${METHODS.join(", ")}.`);
    if (URL.canParse(given)) throw usage("pass the path without the address of the service", "Choose the service with --base-url.");
    const client = await context.client();
    const fields = await fieldsToObject([
      ...(options.rawField ?? []).map((text) => ({ text, typed: false })),
      ...(options.field ?? []).map((text) => ({ text, typed: true })),
    ]);
    const has_fields = Object.keys(fields).length > 0;
    const in_query = method === "GET" || method === "HEAD" || options.input !== undefined;
    const response = await client.request(method, given.startsWith("/") ? given : `/${given}`, {
      query: in_query && has_fields ? toQuery(fields) : undefined,
      body: options.input === undefined ? (in_query || !has_fields ? undefined : fields) : await readInput(options.input),
      headers: Object.fromEntries((options.header ?? []).map(parseHeader)),
    });
    if (options.include && !context.structured) {
      context.out.line(`HTTP ${response.status} ${plain(response.statusText)}`);
      for (const [name, value] of response.headers) context.out.line(plain(`${name}: ${value}`));
      context.out.line();
    }
    if (response.ok && !isJson(response)) return printBody(response);
    const text = await response.text();
    if (response.ok) return text === "" ? undefined : writeJson(context, text);
    const error = new ApiError({ status: response.status, headers: response.headers, body: tryParse(text) });
    // With --json, the Failure prints the response body.
    if (!context.structured && text !== "") await writeJson(context, text);
    throw error;
  },
  [
    "rf api GET /api/robots",
    "rf api PATCH /api/robots/rob_… -f name=kiosk-3 -F labels[zone]=a",
    "rf api POST /api/deployments -H 'Idempotency-Key: 1' --input deployment.json",
  ],
);

const toQuery = (fields: Record<string, unknown>): Record<string, string> =>
  Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value)]));

const isJson = (response: Response): boolean => /[/+]json\b/.test(response.headers.get("content-type") ?? "");

function tryParse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Prints the body as received, or reformats it on a terminal and for YAML output. */
async function writeJson(context: Context, text: string): Promise<void> {
  const value = tryParse(text);
  if (typeof value !== "string" && (process.stdout.isTTY || context.out.format === "yaml"))
    return context.out.result(value, () => context.out.document(value));
  process.stdout.write(`${process.stdout.isTTY ? plain(text.trimEnd()) : text.trimEnd()}\n`);
}

async function readInput(file: string): Promise<Uint8Array> {
  return file === "-" ? readStdin(INPUT_BYTES_MAX) : readFile(file);
}

function parseHeader(text: string): [string, string] {
  const at = text.indexOf(":");
  if (at < 1) throw usage(`"${text}" is not a header: use name:value`);
  return [text.slice(0, at).trim(), text.slice(at + 1).trim()];
}
