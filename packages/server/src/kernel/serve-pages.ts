/** A request for something that is no route of the API. */
export interface AskedPage {
  /** As it came, not decoded, without the query. */
  path: string;
  accept: string | undefined;
  accept_encoding: string | undefined;
  if_none_match: string | undefined;
}

export interface PageAnswer {
  status: number;
  headers: Record<string, string>;
  body: Buffer | string;
}

/** Answers what browsers navigate to, or undefined: then it is a 404 like any other. */
export type Pages = (asked: AskedPage) => PageAnswer | undefined;

/** What serving pages needs of the HTTP server; http.ts makes it. */
export interface PageHost {
  pages: { answer: Pages | undefined };
}

/**
 * Has `GET` and `HEAD` of paths that are no route answered by `pages`. It is no route of its own: one that matches every path
 * would take 404 and 405 from all the others.
 */
export function servePages(http: PageHost, pages: Pages): void {
  http.pages.answer = pages;
}
