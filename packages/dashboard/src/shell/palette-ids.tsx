import type { JsonRouteName } from "@roamfleet/sdk/browser";
import { useQuery } from "@tanstack/react-query";
import { Bot, Boxes, FileCog, MapPin, Package, Rocket, SquareTerminal } from "lucide-react";
import type { ReactNode } from "react";
import { api } from "../api/client.ts";

export interface Entry {
  key: string;
  label: string;
  hint: string;
  icon: ReactNode;
  to: string;
}

const ID = /^(?<kind>[a-z]+)_[0-9a-z]{26}$/;

/** Object types by the prefix of their IDs. */
const KINDS: Record<string, { route: JsonRouteName; hint: string; icon: typeof Bot; to: string }> = {
  rob: { route: "getRobot", hint: "robot", icon: Bot, to: "/robots/" },
  fleet: { route: "getFleet", hint: "fleet", icon: Boxes, to: "/fleets/" },
  site: { route: "getSite", hint: "site", icon: MapPin, to: "/sites/" },
  rel: { route: "getRelease", hint: "release", icon: Package, to: "/releases/" },
  dep: { route: "getDeployment", hint: "deployment", icon: Rocket, to: "/deployments/" },
  cdep: { route: "getConfigDeployment", hint: "config deployment", icon: Rocket, to: "/config-deployments/" },
  cfg: { route: "getConfig", hint: "config", icon: FileCog, to: "/configs/" },
  shl: { route: "getShellSession", hint: "shell session", icon: SquareTerminal, to: "/shells/" },
};

/** Returns the entry for a pasted ID, in upper or lower case; undefined for other text, while loading, and for unknown IDs. */
export function useEntryOf(text: string): Entry | undefined {
  const id = text.trim().toLowerCase();
  const kind = KINDS[ID.exec(id)?.groups?.["kind"] ?? ""];
  const found = useQuery({
    queryKey: ["paletteId", id],
    queryFn: async ({ signal }) => ((await api.call(kind!.route, { params: { id }, signal } as never)) as { body: unknown }).body,
    enabled: kind !== undefined,
    retry: false,
  }).data as { data: { name?: string; tag?: string; release?: { tag: string } } } | undefined;
  if (kind === undefined || found === undefined) return undefined;
  const { icon: Icon, hint, to } = kind;
  const { name, tag, release } = found.data;
  return { key: id, label: name ?? tag ?? release?.tag ?? id, hint, icon: <Icon size={16} aria-hidden />, to: `${to}${id}` };
}
