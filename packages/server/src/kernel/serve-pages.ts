/** A request for a path that is not an API route. */
export interface AskedPage {
  /** The raw path, not decoded, without the query. */
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

/** Answers a browser's page request. Undefined results in the usual 404. */
export type Pages = (asked: AskedPage) => PageAnswer | undefined;

/** The part of the HTTP server that serves pages; http.ts creates it. */
export interface PageHost {
  pages: { answer: Pages | undefined };
}

/**
 * Answers `GET` and `HEAD` of paths without a route by `pages`. It is not a catch-all route, which would replace the 404 and 405 of all
 * paths.
 */
export function servePages(http: PageHost, pages: Pages): void {
  http.pages.answer = pages;
}
