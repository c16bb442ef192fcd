import { Checkbox as BaseCheckbox } from "@base-ui/react/checkbox";
import { Switch as BaseSwitch } from "@base-ui/react/switch";
import { Check } from "lucide-react";
import { type InputHTMLAttributes, type ReactNode, type SelectHTMLAttributes, type TextareaHTMLAttributes, useId } from "react";
import { cx } from "./class-names.ts";

const CONTROL =
  "w-full rounded-md border border-line-strong bg-surface px-2.5 text-ink placeholder:text-muted aria-invalid:border-bad disabled:cursor-not-allowed disabled:opacity-60";

interface FieldParts {
  label: string;
  /** Shown below the control. */
  hint?: ReactNode | undefined;
  /** Shown below the control instead of the hint. */
  error?: string | undefined;
}

/** A form field. `children` receives the attributes that associate the control with its label, hint and error. */
export function Field({
  label,
  hint,
  error,
  children,
}: FieldParts & { children: (ties: { id: string; "aria-describedby": string | undefined; "aria-invalid": boolean }) => ReactNode }) {
  const id = useId();
  const has_note = error !== undefined || hint !== undefined;
  return (
    <div className="mb-3">
      <label htmlFor={id} className="mb-1 block font-medium">
        {label}
      </label>
      {children({ id, "aria-describedby": has_note ? `${id}-note` : undefined, "aria-invalid": error !== undefined })}
      {has_note && (
        <p
          id={`${id}-note`}
          className={cx("mt-1 text-xs [overflow-wrap:anywhere]", error === undefined ? "text-muted" : "text-bad")}
          role={error === undefined ? undefined : "alert"}
        >
          {error ?? hint}
        </p>
      )}
    </div>
  );
}

export function TextInput({ label, hint, error, className, ...rest }: FieldParts & InputHTMLAttributes<HTMLInputElement>) {
  return (
    <Field label={label} hint={hint} error={error}>
      {(ties) => <input {...ties} {...rest} className={cx(CONTROL, "h-8", className)} />}
    </Field>
  );
}

/** The field for the name of a site, fleet or robot. */
export const NameInput = ({ onChange, ...rest }: { value: string; onChange: (name: string) => void; autoFocus?: boolean }) => (
  <TextInput label="Name" required maxLength={200} {...rest} onChange={(event) => onChange(event.target.value)} />
);

export function TextArea({ label, hint, error, className, ...rest }: FieldParts & TextareaHTMLAttributes<HTMLTextAreaElement>) {
  return (
    <Field label={label} hint={hint} error={error}>
      {(ties) => <textarea rows={4} {...ties} {...rest} className={cx(CONTROL, "py-1.5", className)} />}
    </Field>
  );
}

export interface Option {
  value: string;
  label: string;
}

/** A native select: it works on every screen and with every screen reader. */
export function Select({
  label,
  hint,
  error,
  options,
  className,
  ...rest
}: FieldParts & { options: readonly Option[] } & SelectHTMLAttributes<HTMLSelectElement>) {
  return (
    <Field label={label} hint={hint} error={error}>
      {(ties) => (
        <select {...ties} {...rest} className={cx(CONTROL, "h-8", className)}>
          {options.map(({ value, label: text }) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

/** A select for filter bars, without a separate label: its empty option shows the label. */
export function FilterSelect({
  label,
  value,
  options,
  onChange,
  none = "any",
}: {
  label: string;
  /** The text after the label in the empty option. */
  none?: string;
  value: string | undefined;
  options: readonly Option[];
  onChange: (value: string | undefined) => void;
}) {
  return (
    <select
      aria-label={label}
      value={value ?? ""}
      onChange={(event) => onChange(event.target.value === "" ? undefined : event.target.value)}
      className={cx(CONTROL, "h-8 !w-auto max-w-48 !px-1.5", value === undefined && "text-muted")}
    >
      <option value="">{`${label}: ${none}`}</option>
      {options.map((option) => (
        <option key={option.value} value={option.value}>
          {option.label}
        </option>
      ))}
    </select>
  );
}

/** A search field. The shortcut `/` focuses the one on the page, found by `data-search`. */
export function SearchInput({ label, className, ...rest }: { label: string } & InputHTMLAttributes<HTMLInputElement>) {
  return (
    <input
      type="search"
      aria-label={label}
      placeholder={label}
      data-search
      className={cx(CONTROL, "h-8 sm:max-w-72", className)}
      {...rest}
    />
  );
}

export function Checkbox({
  label,
  checked,
  onChange,
  hidden_label = false,
  hint,
}: {
  label: string;
  checked: boolean;
  onChange: (checked: boolean) => void;
  hidden_label?: boolean;
  /** Shown below the label. */
  hint?: string;
}) {
  const id = useId();
  const box = (
    <label className="inline-flex min-h-6 items-center gap-2">
      <BaseCheckbox.Root
        checked={checked}
        onCheckedChange={onChange}
        aria-label={hidden_label ? label : undefined}
        aria-describedby={hint === undefined ? undefined : id}
        className="flex size-4 items-center justify-center rounded border border-line-strong bg-surface data-checked:border-accent data-checked:bg-accent"
      >
        <BaseCheckbox.Indicator className="text-accent-ink">
          <Check size={12} aria-hidden />
        </BaseCheckbox.Indicator>
      </BaseCheckbox.Root>
      {!hidden_label && <span>{label}</span>}
    </label>
  );
  if (hint === undefined) return box;
  return (
    <div className="mb-3">
      {box}
      <p id={id} className="mt-1 text-xs text-muted">
        {hint}
      </p>
    </div>
  );
}

export function Switch({
  label,
  checked,
  onChange,
  hint,
}: {
  label: string;
  checked: boolean;
  onChange: (checked: boolean) => void;
  hint?: string;
}) {
  return (
    <label className="mb-3 flex items-start gap-3">
      <BaseSwitch.Root
        checked={checked}
        onCheckedChange={onChange}
        className="mt-0.5 flex h-5 w-9 shrink-0 rounded-full border border-line-strong bg-sunken p-0.5 data-checked:border-accent data-checked:bg-accent"
      >
        <BaseSwitch.Thumb className="size-3.5 rounded-full bg-line-strong transition-transform data-checked:translate-x-4 data-checked:bg-accent-ink" />
      </BaseSwitch.Root>
      <span>
        <span className="block font-medium">{label}</span>
        {hint !== undefined && <span className="block text-xs text-muted">{hint}</span>}
      </span>
    </label>
  );
}
