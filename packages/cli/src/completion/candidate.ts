/** A possible completion and its description. */
export interface Candidate {
  value: string;
  about?: string;
  /** Display name, which also matches the typed text. */
  name?: string;
}
