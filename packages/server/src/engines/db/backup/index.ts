export { isForeign, readLastBackup, refuseUnfinished } from "./data-files.ts";
export { type BackupMade, type BackupOptions, makeBackup, makeRotatedBackup } from "./make-backup.ts";
export { restoreBackup, type RestoreOptions, verifyBackup } from "./restore-backup.ts";
