import { hash } from "node:crypto";
import { readFileSync } from "node:fs";
import path from "node:path";
import type { Plane } from "../../context.ts";
import { hostOf, type Site } from "../../kernel/networks.ts";
import { PACKAGE_DIRECTORY } from "../../kernel/package-directory.ts";
import type { HostedFiles } from "./directory.ts";

const TEMPLATE = path.join(PACKAGE_DIRECTORY, "static", "install", "install.sh");
const ORIGIN = /^https?:\/\/([a-z0-9.-]{1,253}|\[[0-9a-f:.]{2,45}\])(:\d{1,5})?$/;
const BASE64_COLUMNS = /.{1,76}/g;

/**
 * Returns the address of this server for the script: the address of the request, if it is one of this server's names. Otherwise returns
 * null, for example behind a proxy without --host-name, where the names are unknown. Also returns null if the address contains characters
 * that a shell needs quotes for.
 */
export function checkedOrigin({ hosts }: Pick<Plane, "hosts">, site: Site): string | null {
  if (site.origin === undefined || !hosts.is_known || !ORIGIN.test(site.origin)) return null;
  return hosts.has(hostOf(site)) ? site.origin : null;
}

let template: string | undefined;

/** Returns install.sh with the server's address, the hosted version and the public keys that verify the packages. */
export function installScript({ manifest, apt_key, signing_key }: HostedFiles, origin: string | null): string {
  template ??= readFileSync(TEMPLATE, "utf8");
  const values: Record<string, string> = {
    SERVER: origin ?? "",
    VERSION: manifest.version,
    ARCHITECTURES: manifest.architectures.join(" "),
    APT_KEY: (apt_key.toString("base64").match(BASE64_COLUMNS) ?? []).join("\n"),
    SIGNING_KEY: signing_key.trim(),
  };
  return template.replace(/@@([A-Z_]+)@@/g, (_, name: string) => {
    const value = values[name];
    if (value === undefined) throw new Error(`install.sh has the unknown placeholder ${name}`);
    return value;
  });
}

export const sha256Of = (text: string): string => hash("sha256", text);
