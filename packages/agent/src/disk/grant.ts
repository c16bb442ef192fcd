import { chmodSync, chownSync, statSync } from "node:fs";

/** Adds permissions to a file or directory, and sets its group if one is given. Writes nothing if it has both, to spare the flash. */
export function grant(place: string, permissions: number, group?: number): void {
  const { uid, gid, mode } = statSync(place);
  // Set the mode after the owner, because chown may clear the setgid bit.
  if (group !== undefined && gid !== group) chownSync(place, uid, group);
  if ((mode & permissions) !== permissions) chmodSync(place, (mode & 0o7777) | permissions);
}
