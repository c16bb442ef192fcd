import type { Bound } from "../../kernel/sealing.ts";

/** A secret opens as this version of this entry only: nobody who writes to the database can put it where it is shown. */
export const entryBound = (config_id: string, version: number): Bound => ["config", config_id, version];

/** Likewise a file, as the one with these bytes. */
export const fileBound = (sha256: string): Bound => ["config file", sha256];
