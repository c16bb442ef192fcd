import type { Release } from "@roamfleet/protocol/routes";
import { wireTime } from "../../kernel/time.ts";
import type { ReleaseRow } from "./store.ts";

export const toWire = (release: ReleaseRow): Release => ({
  ...release,
  created_at: wireTime(release.created_at),
  updated_at: wireTime(release.updated_at),
});
