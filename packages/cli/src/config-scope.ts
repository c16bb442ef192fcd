import type { Body, Client } from "@roamfleet/sdk";
import type { Command } from "commander";
import { EXIT } from "./exit-codes.ts";
import { Failure, usage } from "./failure.ts";
import { plain } from "./text.ts";

export type ConfigEntry = Body<"getConfig">["data"];

/** The scope of a value. */
export interface ScopeOptions {
  namespace?: string;
  site?: string;
  fleet?: string;
  robot?: string;
}

export type Scope = Pick<ConfigEntry, "scope"> & { scope_id: string | undefined };

export const namespaceOption = (command: Command, meaning = "Namespace of the key (default: `default`)"): Command =>
  command.option("--namespace <name>", meaning);

/** Adds the options that select the scope of an entry. */
export const scopeOptions = (command: Command): Command =>
  namespaceOption(command)
    .option("--site <id>", "Value set for this site")
    .option("--fleet <id>", "Value set for this fleet")
    .option("--robot <id>", "Value set for this robot");

export function readScope({ site, fleet, robot }: ScopeOptions): Scope {
  const given = Object.entries({ site, fleet, robot }).filter(([, id]) => id !== undefined);
  if (given.length > 1) throw usage(`${given.map(([name]) => `--${name}`).join(" and ")} cannot be used together`);
  if (site !== undefined) return { scope: "site", scope_id: site };
  if (fleet !== undefined) return { scope: "fleet", scope_id: fleet };
  if (robot !== undefined) return { scope: "robot", scope_id: robot };
  return { scope: "org", scope_id: undefined };
}

const CONFIG_ID = /^cfg_[0-9a-z]{26}$/;

/** Returns the entry with this id, or the entry of this key in the scope of `options`. With `removed`, also finds a removed entry. */
export async function findEntry(client: Client, key: string, options: ScopeOptions, { removed = false } = {}): Promise<ConfigEntry> {
  if (CONFIG_ID.test(key) && !removed) return (await client.getConfig({ params: { id: key } })).data;
  const { scope, scope_id } = readScope(options);
  const namespace = options.namespace ?? "default";
  for (const gone of removed ? [false, true] : [false]) {
    const { items } = await client.listConfigs({ query: { key, namespace, scope, scope_id, ...(gone ? { removed: true } : {}) } });
    if (items[0] !== undefined) return items[0];
  }
  const everywhere = await client.listConfigs({ query: { key, namespace } });
  throw new Failure(
    EXIT.not_found,
    `${plain(namespace)}/${plain(key)} is not set for ${scope === "org" ? "the org" : `${scope} ${scope_id}`}`,
    {
      hints: everywhere.items.map((entry) => `It is set for ${whereOf(entry)}.`),
    },
  );
}

/** Returns the id of the entry whose history is requested. */
export async function findEntryId(client: Client, key: string, options: ScopeOptions): Promise<string> {
  return CONFIG_ID.test(key) ? key : (await findEntry(client, key, options, { removed: true })).id;
}

export const whereOf = ({ scope, scope_id }: Pick<ConfigEntry, "scope" | "scope_id">): string =>
  scope === "org" ? "the org" : `${scope} ${scope_id}`;

/** Formats a value for display; secrets are masked. */
export const valueText = ({ value, secret }: Pick<ConfigEntry, "value" | "secret">): string =>
  secret ? "(secret)" : JSON.stringify(value);
