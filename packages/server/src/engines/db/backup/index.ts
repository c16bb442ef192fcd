export { isForeign } from "./data-files.ts";
export { readLastBackup } from "./last-backup.ts";
export { type BackupMade, type BackupOptions, makeBackup } from "./make-backup.ts";
export { restoreBackup, type RestoreOptions } from "./restore-backup.ts";
export { refuseUnfinished } from "./unfinished.ts";
