/**
 * What is said in a stream `files`, one request after the other. Whoever asks sends FileRequest; after `ready` of a write it sends the
 * bytes from that offset as data and then `end`. The robot answers with FileAnswer; after `reading` come the bytes as data, then `done`.
 * After `failed` the next request may come. Paths that do not begin with / begin in the home of the user whom the files are seen by.
 */
export type FileRequest =
  | { type: "stat"; path: string }
  /** What is in a directory. */
  | { type: "list"; path: string }
  /** From `offset` on; `version` is that of the bytes that are there already, and another one fails as `changed`. */
  | { type: "read"; path: string; offset: number; version?: string }
  /** Goes on with what an earlier write of the same bytes to the same path has left. */
  | { type: "write"; path: string; size: number; sha256: string; mode: number }
  | { type: "end" }
  /** One directory; it may be there already. */
  | { type: "mkdir"; path: string; mode: number };

export type FileKind = "file" | "directory" | "other";

export interface FileEntry {
  name: string;
  /** `link`: a symbolic link to a directory, or to nothing. */
  kind: FileKind | "link";
  size: number;
  mode: number;
  /** Changes with the bytes. */
  version: string;
}

export type FileAnswer =
  /** `path` is absolute and free of symbolic links. */
  | ({ type: "stat"; path: string } & Omit<FileEntry, "name" | "kind"> & { kind: FileKind })
  | { type: "entries"; entries: FileEntry[] }
  /** After the last entries; `unnamed` have names that are no UTF-8 and were left out. */
  | { type: "listed"; unnamed: number }
  | { type: "reading"; path: string; size: number; mode: number; version: string; offset: number }
  | { type: "ready"; path: string; offset: number }
  /** Of a write: so much of the file is there, told now and then. */
  | { type: "took"; bytes: number }
  /** Of a read or a write: all bytes of the file, and how many of them came over the line now. `unchanged`: the same bytes were there already. */
  | { type: "done"; path: string; bytes: number; moved: number; sha256: string; unchanged?: boolean }
  | { type: "made"; path: string }
  | { type: "failed"; code: FileFailure; message: string };

export type FileFailure =
  | "not_found"
  | "forbidden"
  | "not_a_file"
  | "not_a_directory"
  | "disk_full"
  /** The file is not the one any more that was begun with. */
  | "changed"
  | "checksum"
  | "bad_request"
  | "failed";
