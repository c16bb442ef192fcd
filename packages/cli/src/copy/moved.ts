/** What became of one file. */
export interface Moved {
  /** Of the whole file. */
  bytes: number;
  /** That came over the line in the last go. */
  moved: number;
  sha256: string;
  /** The same bytes were there already. */
  unchanged: boolean;
}
