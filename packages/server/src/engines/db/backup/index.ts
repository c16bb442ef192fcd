export { isForeign } from "./data-files.ts";
export { readLastBackup } from "./last-backup.ts";
export { type BackupMade, type BackupOptions, makeBackup } from "./make-backup.ts";
export { restoreBackup, type RestoreOptions } from "./restore-backup.ts";
export { makeRotatedBackup } from "./rotate-backups.ts";
export { refuseUnfinished } from "./unfinished.ts";
export { verifyBackup } from "./verify-backup.ts";
