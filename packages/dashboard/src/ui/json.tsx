/** Shows a JSON value as read-only, indented text. */
export function Json({ value }: { value: unknown }) {
  return (
    <pre
      className="max-h-96 overflow-auto rounded-md border border-line bg-sunken p-2.5 font-mono text-xs [overflow-wrap:anywhere] whitespace-pre-wrap"
      tabIndex={0}
    >
      {JSON.stringify(value, null, 2) ?? "—"}
    </pre>
  );
}
