import { SettingsError } from "./secret-settings.ts";

/** A tile server whose images the dashboard shows below the robots on its map. Browsers request them directly. */
export interface MapTiles {
  /** URL with the placeholders {z}, {x} and {y}. Users of the dashboard can read it, with a key that it contains. */
  url: string;
  /** The origin that the Content-Security-Policy of the dashboard allows. */
  origin: string;
  /** Text that the license of the tiles requires. */
  attribution: string | undefined;
}

export function readMapTiles(env: NodeJS.ProcessEnv): MapTiles | undefined {
  const url = env.ROAMFLEET_MAP_TILES_URL || undefined;
  const attribution = env.ROAMFLEET_MAP_ATTRIBUTION || undefined;
  if (url === undefined) {
    if (attribution === undefined) return undefined;
    throw new SettingsError("ROAMFLEET_MAP_ATTRIBUTION is set without ROAMFLEET_MAP_TILES_URL");
  }
  const parsed = URL.parse(url);
  const is_complete = ["{z}", "{x}", "{y}"].every((placeholder) => url.includes(placeholder));
  // The origin becomes a part of a header, so it must not contain a placeholder or a wildcard.
  if (parsed === null || !/^https?:$/.test(parsed.protocol) || !is_complete || !/^[a-z0-9.:[\]-]+$/i.test(parsed.host))
    throw new SettingsError("ROAMFLEET_MAP_TILES_URL: expected https://HOST/… with {z}, {x} and {y} in the path or query");
  if (parsed.username !== "" || parsed.password !== "")
    throw new SettingsError("ROAMFLEET_MAP_TILES_URL must not contain a user or a password: browsers refuse such URLs of images");
  return { url, origin: parsed.origin, attribution };
}
