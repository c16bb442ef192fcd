import type { Bound } from "../../kernel/sealing.ts";

/** Binds a secret to this version of this entry: an attacker who writes to the database cannot move it to where it is shown. */
export const entryBound = (config_id: string, version: number): Bound => ["config", config_id, version];

/** Binds an encrypted file to its digest. */
export const fileBound = (sha256: string): Bound => ["config file", sha256];
