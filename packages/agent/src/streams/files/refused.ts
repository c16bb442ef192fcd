import type { FileFailure } from "@roamfleet/protocol/link";

/** Why a file operation is refused, in words for the user. */
export class FileRefused extends Error {
  readonly code: FileFailure;

  constructor(code: FileFailure, message: string) {
    super(message);
    this.code = code;
  }
}

const WORDS = new Map<string, [FileFailure, string]>([
  ["ENOENT", ["not_found", "there is no such file or directory"]],
  ["EACCES", ["forbidden", "permission denied"]],
  ["EPERM", ["forbidden", "permission denied"]],
  ["EROFS", ["forbidden", "the file system is read-only"]],
  ["ENOTDIR", ["not_a_directory", "a part of the path is not a directory"]],
  ["EISDIR", ["not_a_file", "this is a directory"]],
  ["ELOOP", ["forbidden", "too many symbolic links, or one where none is allowed"]],
  ["ENAMETOOLONG", ["bad_request", "the name is too long"]],
  ["ENOSPC", ["disk_full", "the robot's disk is full"]],
  ["EDQUOT", ["disk_full", "the disk quota on the robot is used up"]],
  ["EFBIG", ["disk_full", "the robot's file system does not support files of this size"]],
]);

/** Converts an error of the file system to a refusal that names the path; other errors are thrown. */
export function refusalOf(error: unknown, path: string): FileRefused {
  if (error instanceof FileRefused) return error;
  const { code } = error as NodeJS.ErrnoException;
  if (code === undefined) throw error;
  const [failure, words] = WORDS.get(code) ?? ["failed", `the robot could not do it (${code})`];
  return new FileRefused(failure, `${path}: ${words}`);
}
