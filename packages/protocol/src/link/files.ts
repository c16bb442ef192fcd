/**
 * The protocol of a `files` stream, one request at a time. The client sends FileRequest; after `ready` of a write it sends the bytes from
 * that offset as data, then `end`. The robot responds with FileAnswer; after `reading` it sends the bytes as data, then `done`. After
 * `failed` the next request may follow. Relative paths start in the home directory of the user that accesses the files.
 */
export type FileRequest =
  | { type: "stat"; path: string }
  /** Lists a directory. */
  | { type: "list"; path: string }
  /** Reads from `offset`; `version` identifies the content already received, and a different one fails with `changed`. */
  | { type: "read"; path: string; offset: number; version?: string }
  /** Resumes an earlier write of the same content to the same path. */
  | { type: "write"; path: string; size: number; sha256: string; mode: number }
  | { type: "end" }
  /** Creates one directory; it may already exist. */
  | { type: "mkdir"; path: string; mode: number };

export type FileKind = "file" | "directory" | "other";

export interface FileEntry {
  name: string;
  /** `link`: a symbolic link to a directory, or a broken one. */
  kind: FileKind | "link";
  size: number;
  mode: number;
  /** Changes whenever the content changes. */
  version: string;
}

export type FileAnswer =
  /** `path` is absolute and free of symbolic links. */
  | ({ type: "stat"; path: string } & Omit<FileEntry, "name" | "kind"> & { kind: FileKind })
  | { type: "entries"; entries: FileEntry[] }
  /** Follows the last entries; `unnamed` names are not valid UTF-8 and were omitted. */
  | { type: "listed"; unnamed: number }
  | { type: "reading"; path: string; size: number; mode: number; version: string; offset: number }
  | { type: "ready"; path: string; offset: number }
  /** Progress of a write: bytes stored so far, sent periodically. */
  | { type: "took"; bytes: number }
  /**
   * End of a read or write: total bytes of the file, and bytes transferred in this request. `unchanged`: the same content already existed.
   */
  | { type: "done"; path: string; bytes: number; moved: number; sha256: string; unchanged?: boolean }
  | { type: "made"; path: string }
  | { type: "failed"; code: FileFailure; message: string };

export type FileFailure =
  | "not_found"
  | "forbidden"
  | "not_a_file"
  | "not_a_directory"
  | "disk_full"
  /** The file has changed since the transfer began. */
  | "changed"
  | "checksum"
  | "bad_request"
  | "failed";
