import assert from "node:assert/strict";
import { test } from "node:test";
import { readMapTiles } from "./map-tiles.ts";
import { SettingsError } from "./secret-settings.ts";

const read = (url: string, attribution?: string) =>
  readMapTiles({ ROAMFLEET_MAP_TILES_URL: url, ...(attribution === undefined ? {} : { ROAMFLEET_MAP_ATTRIBUTION: attribution }) });

test("reads the URL of map tiles and its origin", () => {
  assert.equal(readMapTiles({}), undefined);
  assert.deepEqual(read("https://tiles.example:8443/{z}/{x}/{y}.png?key=1", "© Example"), {
    url: "https://tiles.example:8443/{z}/{x}/{y}.png?key=1",
    origin: "https://tiles.example:8443",
    attribution: "© Example",
  });
});

test("refuses URLs of map tiles that cannot work, and those that would allow more than one origin", () => {
  for (const url of [
    "tiles",
    "ftp://tiles.example/{z}/{x}/{y}",
    "https://tiles.example/{z}/{x}",
    "https://{s}.tiles.example/{z}/{x}/{y}",
    "https://*.example/{z}/{x}/{y}",
    "https://user:word@tiles.example/{z}/{x}/{y}",
  ])
    assert.throws(() => read(url), SettingsError, url);
  assert.throws(() => readMapTiles({ ROAMFLEET_MAP_ATTRIBUTION: "© Example" }), SettingsError);
});
