export { backup, type BackupOptions } from "./backup.ts";
export { type BackupManifest } from "./backup-files.ts";
export { type Connection } from "./connect.ts";
export { type Log } from "./log.ts";
export { Refusal } from "./refusal.ts";
export { restore, type RestoreOptions } from "./restore.ts";
export { runningDatabase } from "./running.ts";
export { type Embedded, type EmbeddedOptions, type ExitListener, startEmbedded } from "./supervisor.ts";
export { upgradeDatabase, type UpgradeOptions, type UpgradeResult } from "./upgrade.ts";
