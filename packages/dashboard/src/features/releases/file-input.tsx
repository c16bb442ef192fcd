import { FileUp } from "lucide-react";
import { type ReactNode, useEffect, useId, useRef, useState } from "react";
import { Button, cx } from "../../ui/index.ts";
import type { DigestNews } from "./digest-worker.ts";
import type { FileContent } from "./file-content.ts";

const hasFile = ({ dataTransfer }: DragEvent): boolean => dataTransfer?.types.includes("Files") === true;

/** Accepts a file dropped anywhere on the page, and shows a hint while a file is dragged over it. */
export function PageDrop({ onFile, children }: { onFile: (file: File) => void; children: ReactNode }) {
  const [is_over, setOver] = useState(false);
  const latest = useRef(onFile);
  latest.current = onFile;
  useEffect(() => {
    // Each element below the pointer fires dragenter and dragleave. A file is over the page while more elements were entered than left.
    let depth = 0;
    const enter = (event: DragEvent): void => {
      if (!hasFile(event)) return;
      depth += 1;
      setOver(true);
    };
    const over = (event: DragEvent): void => {
      if (hasFile(event)) event.preventDefault();
    };
    const leave = (event: DragEvent): void => {
      if (!hasFile(event)) return;
      depth -= 1;
      if (depth <= 0) setOver(false);
    };
    const drop = (event: DragEvent): void => {
      if (!hasFile(event)) return;
      event.preventDefault();
      depth = 0;
      setOver(false);
      const file = event.dataTransfer?.files[0];
      if (file !== undefined) latest.current(file);
    };
    const heard = { dragenter: enter, dragover: over, dragleave: leave, drop };
    for (const [name, listener] of Object.entries(heard)) document.addEventListener(name, listener as EventListener);
    return () => {
      for (const [name, listener] of Object.entries(heard)) document.removeEventListener(name, listener as EventListener);
    };
  }, []);
  if (!is_over) return null;
  return (
    <div className="pointer-events-none fixed inset-3 z-50 flex flex-col items-center justify-center gap-2 rounded-lg border-2 border-dashed border-accent bg-accent-soft/90 text-accent">
      <FileUp size={32} aria-hidden />
      <p className="text-base font-semibold">{children}</p>
    </div>
  );
}

/** An area to choose or drop a file. */
export function FileChooser({ label, hint, onFile }: { label: string; hint: ReactNode; onFile: (file: File) => void }) {
  const id = useId();
  const input = useRef<HTMLInputElement>(null);
  return (
    <div className={cx("flex flex-col items-center gap-2 rounded-md border border-dashed border-line-strong px-4 py-6 text-center")}>
      <FileUp size={24} aria-hidden className="text-muted" />
      <input
        ref={input}
        id={id}
        type="file"
        tabIndex={-1}
        aria-label={label}
        className="sr-only"
        onChange={(event) => {
          const file = event.target.files?.[0];
          if (file !== undefined) onFile(file);
          // Clear the input, so that selecting the same file again fires a change event.
          event.target.value = "";
        }}
      />
      <Button onClick={() => input.current?.click()}>{label}</Button>
      <p className="text-xs text-muted">{hint}</p>
    </div>
  );
}

export interface Digest {
  done_bytes: number;
  content?: FileContent;
  sha256?: string;
  error?: string;
}
const NOTHING: Digest = { done_bytes: 0 };

/** Reads a file in a worker. Returns its content type, the progress and, at the end, its SHA-256. Restarts when another file is passed. */
export function useDigest(file: File | undefined): Digest {
  const [digest, setDigest] = useState<{ of: File | undefined; is: Digest }>({ of: undefined, is: NOTHING });
  useEffect(() => {
    if (file === undefined) return undefined;
    const worker = new Worker(new URL("./digest-worker.ts", import.meta.url), { type: "module" });
    const note = (news: Partial<Digest>): void =>
      setDigest(({ of, is }) => ({ of: file, is: { ...(of === file ? is : NOTHING), ...news } }));
    worker.addEventListener("message", ({ data }: MessageEvent<DigestNews>) => note(data));
    worker.addEventListener("error", () => note({ error: "the browser reported an error" }));
    worker.postMessage(file);
    return () => worker.terminate();
  }, [file]);
  return digest.of === file ? digest.is : NOTHING;
}
