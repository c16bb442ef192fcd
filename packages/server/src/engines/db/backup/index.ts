export { isForeign } from "./data-files.ts";
export { readLastBackup } from "./data-files.ts";
export { type BackupMade, type BackupOptions, makeBackup } from "./make-backup.ts";
export { restoreBackup, type RestoreOptions } from "./restore-backup.ts";
export { makeRotatedBackup } from "./make-backup.ts";
export { refuseUnfinished } from "./data-files.ts";
export { verifyBackup } from "./restore-backup.ts";
