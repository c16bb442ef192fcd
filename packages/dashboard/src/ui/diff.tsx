import { lazy, Suspense } from "react";

const Lines = lazy(() => import("./diff-lines.tsx").then(({ DiffLines }) => ({ default: DiffLines })));

/** Shows the differences between two texts, line by line. The diff library is loaded on first use. */
export function Diff({ before, after, label }: { before: string; after: string; label: string }) {
  return (
    <Suspense fallback={<div className="h-16 rounded-md border border-line bg-sunken" />}>
      <Lines before={before} after={after} label={label} />
    </Suspense>
  );
}
