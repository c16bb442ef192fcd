const meta = document.querySelector<HTMLMetaElement>('meta[name="map-tiles"]');

/** The map tiles that the server's settings name. Undefined: none. */
export const MAP_TILES: { url: string; attribution: string } | undefined =
  meta === null ? undefined : { url: meta.content, attribution: meta.dataset["attribution"] ?? "" };
