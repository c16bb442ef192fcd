import { ApiError, type Client } from "@roamfleet/sdk";
import type { Argument, Command, Option } from "commander";
import { sourceOf } from "./completion/sources.ts";
import type { Context } from "./context.ts";
import { usage } from "./failure.ts";
import { readList } from "./lists.ts";

/** Objects that commands take by name too: how each is called, the list that finds its name, and the prefix of its ids. */
const NAMED = {
  robots: { noun: "robots", list: "listRobots", prefix: "rob_" },
  fleets: { noun: "fleets", list: "listFleets", prefix: "fleet_" },
  sites: { noun: "sites", list: "listSites", prefix: "site_" },
} as const;
type Named = (typeof NAMED)[keyof typeof NAMED];

/** `ROBOT:PATH`, an argument of `rf robots cp`. */
const PLACE = /^(?<robot>[^:/]+)(?<path>:.*)$/s;

/** An object of a scope, such as `--site` of a token, is missing in the body of a request, which is 400. */
const isMissing = ({ status, message }: ApiError): boolean => status === 404 || (status === 400 && message.endsWith(" does not exist"));

/**
 * After a command failed because an object was not found: returns the arguments of commander's action with the names of robots, fleets and
 * sites replaced by their ids. Returns undefined if none was the name of an object. Throws a usage error if a name is that of several objects.
 */
export async function replaceNames(context: Context, args: readonly unknown[], error: unknown): Promise<unknown[] | undefined> {
  if (!(error instanceof ApiError) || !isMissing(error)) return undefined;
  const command = args.at(-1) as Command;
  const client = await context.client();
  let replaced = 0;
  const idOf = async (of: Named, text: string): Promise<string> => {
    const id = await findByName(client, of, text);
    if (id !== undefined) replaced += 1;
    return id ?? text;
  };
  const replace = async (slot: Argument | Option, value: unknown): Promise<unknown> => {
    if (Array.isArray(value)) return Promise.all(value.map((one) => replace(slot, one)));
    if (typeof value !== "string") return value;
    const source = sourceOf(command, slot);
    if (source === "files") {
      const { robot, path = "" } = PLACE.exec(value)?.groups ?? {};
      return robot === undefined ? value : `${await idOf(NAMED.robots, robot)}${path}`;
    }
    return source !== undefined && source in NAMED ? idOf(NAMED[source as keyof typeof NAMED], value) : value;
  };
  const slots = command.registeredArguments;
  const words = await Promise.all(slots.map((slot, at) => replace(slot, args[at])));
  const options: Record<string, unknown> = { ...(args[slots.length] as object) };
  for (const option of command.options) {
    const name = option.attributeName();
    if (name in options) options[name] = await replace(option, options[name]);
  }
  return replaced === 0 ? undefined : [...words, options, command];
}

async function findByName(client: Client, { noun, list, prefix }: Named, name: string): Promise<string | undefined> {
  if (name === "" || name.startsWith(prefix)) return undefined;
  const { items } = await readList(client, list, undefined, { query: { q: name } });
  const ids = items.filter((one) => one.name === name).map(({ id }) => id);
  if (ids.length > 1) throw usage(`${ids.length} ${noun} are named ${name}`, `Use an id: ${ids.slice(0, 5).join(", ")}.`);
  return ids[0];
}
