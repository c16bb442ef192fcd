/** A word that may follow, and what it is. */
export interface Candidate {
  value: string;
  about?: string;
  /** What people call it: typing this finds it too. */
  name?: string;
}
