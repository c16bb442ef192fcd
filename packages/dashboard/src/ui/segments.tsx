import { cx } from "./class-names.ts";
import type { Option } from "./field.tsx";

/** A segmented control: a few options side by side, one of which is selected. */
export function Segments<Value extends string>({
  label,
  options,
  value,
  onChange,
}: {
  label: string;
  /** `title`: a longer text for the tooltip. */
  options: readonly (Option & { value: Value; title?: string })[];
  value: Value;
  onChange: (value: Value) => void;
}) {
  return (
    <div role="group" aria-label={label} className="inline-flex rounded-md border border-line-strong p-px">
      {options.map((option) => (
        <button
          key={option.value}
          type="button"
          title={option.title}
          aria-pressed={option.value === value}
          onClick={() => onChange(option.value)}
          className={cx("h-7 rounded px-3", option.value === value ? "bg-accent-soft font-medium" : "text-muted hover:bg-hover")}
        >
          {option.label}
        </button>
      ))}
    </div>
  );
}
