/** The result of copying one file. */
export interface Moved {
  /** Size of the whole file. */
  bytes: number;
  /** Bytes transferred in the last attempt. */
  moved: number;
  sha256: string;
  /** The target already had the same content. */
  unchanged: boolean;
}
