import { Checkbox as BaseCheckbox } from "@base-ui/react/checkbox";
import { Switch as BaseSwitch } from "@base-ui/react/switch";
import { Check } from "lucide-react";
import {
  type InputHTMLAttributes,
  type ReactNode,
  type SelectHTMLAttributes,
  type TextareaHTMLAttributes,
  useEffect,
  useId,
  useRef,
  useState,
} from "react";
import { fromLocalInput, toLocalInput } from "./format.ts";
import { cx } from "./text.tsx";

const CONTROL =
  "w-full rounded-md border border-line-strong bg-surface px-2.5 text-ink placeholder:text-muted aria-invalid:border-bad disabled:cursor-not-allowed disabled:opacity-60";

interface Values {
  onValue: (value: string) => void;
}
type InputProps = Omit<InputHTMLAttributes<HTMLInputElement>, "onChange"> & Values;

interface FieldParts {
  label: string;
  /** Shown below the control. */
  hint?: ReactNode | undefined;
  /** Shown below the control instead of the hint. */
  error?: string | undefined;
}

/** A form field. `children` receives the attributes that associate the control with its label, hint and error. */
function Field({
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
      {has_note && <FieldNote id={id} error={error} hint={hint} />}
    </div>
  );
}

/** The error of a field, which screen readers announce, or else its hint. */
export const FieldNote = ({ id, error, hint }: Pick<FieldParts, "error" | "hint"> & { id: string }) => (
  <div
    id={`${id}-note`}
    className={cx("mt-1 text-xs [overflow-wrap:anywhere]", error === undefined ? "text-muted" : "text-bad")}
    role={error === undefined ? undefined : "alert"}
  >
    {error ?? hint}
  </div>
);

export function TextInput({ label, hint, error, className, onValue, ...rest }: FieldParts & InputProps) {
  return (
    <Field label={label} hint={hint} error={error}>
      {(ties) => <input {...ties} {...rest} onChange={({ target }) => onValue(target.value)} className={cx(CONTROL, "h-8", className)} />}
    </Field>
  );
}

/** The field for the name of a site, fleet or robot. */
export const NameInput = (props: { value: string; onValue: (name: string) => void; autoFocus?: boolean }) => (
  <TextInput label="Name" required maxLength={200} {...props} />
);

type TextAreaProps = Omit<TextareaHTMLAttributes<HTMLTextAreaElement>, "onChange"> & Values;

export function TextArea({ label, hint, error, className, onValue, ...rest }: FieldParts & TextAreaProps) {
  return (
    <Field label={label} hint={hint} error={error}>
      {(ties) => (
        <textarea {...ties} {...rest} onChange={({ target }) => onValue(target.value)} className={cx(CONTROL, "py-1.5", className)} />
      )}
    </Field>
  );
}

export interface Option {
  value: string;
  label: string;
}

/** Returns objects as options, by name. */
export const namedOptions = (objects: readonly { id: string; name: string }[]): Option[] =>
  objects.map(({ id, name }) => ({ value: id, label: name }));

type SelectProps = Omit<SelectHTMLAttributes<HTMLSelectElement>, "onChange"> & Values & { options: readonly Option[] };

/** A native select: it works on every screen and with every screen reader. */
export function Select({ label, hint, error, options, className, onValue, ...rest }: FieldParts & SelectProps) {
  return (
    <Field label={label} hint={hint} error={error}>
      {(ties) => (
        <select {...ties} {...rest} onChange={({ target }) => onValue(target.value)} className={cx(CONTROL, "h-8", className)}>
          <Options options={options} />
        </select>
      )}
    </Field>
  );
}

const Options = ({ options }: { options: readonly Option[] }) =>
  options.map(({ value, label }) => (
    <option key={value} value={value}>
      {label}
    </option>
  ));

/** A select in a bar of settings, without a visible label. */
export const BarSelect = ({ label, options, onValue, ...rest }: SelectProps & { label: string }) => (
  <select
    aria-label={label}
    {...rest}
    onChange={({ target }) => onValue(target.value)}
    className="h-8 max-w-56 rounded-md border border-line-strong bg-surface px-2.5 disabled:opacity-60"
  >
    <Options options={options} />
  </select>
);

/** A select for filter bars. It has no separate label: its empty option shows the label. An option without a label shows its value. */
export function FilterSelect<Value extends string>({
  label,
  value,
  options,
  onChange,
  none = "any",
}: {
  label: string;
  /** The text after the label in the empty option. */
  none?: string;
  value: Value | undefined;
  options: readonly (Value | { value: Value; label: string })[];
  onChange: (value: Value | undefined) => void;
}) {
  const labeled = options.map((option) => (typeof option === "string" ? { value: option, label: option.replaceAll("_", " ") } : option));
  // Without this option, the select would show "any" while a filter from the URL applies.
  if (value !== undefined && labeled.every((option) => option.value !== value))
    labeled.push({ value, label: `${label}: ${options.length === 0 ? "…" : "not available"}` });
  return (
    <select
      aria-label={label}
      value={value ?? ""}
      onChange={({ target }) => onChange(target.value === "" ? undefined : (target.value as Value))}
      className={cx(CONTROL, "h-8 !w-auto max-w-48 !px-1.5", value === undefined && "text-muted")}
    >
      <option value="">{`${label}: ${none}`}</option>
      <Options options={labeled} />
    </select>
  );
}

/** A search field. The shortcut `/` finds the page's search field by the attribute `data-search` and focuses it. */
export function SearchInput({ label, className, onValue, ...rest }: { label: string } & InputProps) {
  return (
    <input
      type="search"
      aria-label={label}
      placeholder={label}
      data-search
      className={cx(CONTROL, "h-8 sm:max-w-72", className)}
      onChange={({ target }) => onValue(target.value)}
      {...rest}
    />
  );
}

const TYPING_MS = 250;

/** A search field that calls `onValue` when the user pauses typing. Its text follows changes of `value`, such as by the back button. */
export function TypedSearch({ value = "", onValue, ...rest }: TypedSearchProps) {
  const [text, setText] = useState(value);
  const report = useRef(onValue);
  report.current = onValue;
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    if (text === value) return undefined;
    const timer = setTimeout(() => report.current(text === "" ? undefined : text), TYPING_MS);
    return () => clearTimeout(timer);
  }, [text, value]);
  return <SearchInput maxLength={200} {...rest} value={text} onValue={setText} />;
}

interface TypedSearchProps {
  label: string;
  value: string | undefined;
  onValue: (text: string | undefined) => void;
  className?: string;
}

/**
 * An input for a time. It shows the browser's time zone, while `value` and `onValue` use RFC 3339 in UTC. It calls `onValue` when it loses
 * the focus.
 */
export const TimeInput = ({
  label,
  value,
  onValue,
}: {
  label: string;
  value: string | undefined;
  onValue: (at: string | undefined) => void;
}) => (
  <label className="flex items-center gap-1.5 text-muted max-sm:w-full">
    <span className="max-sm:w-10">{label}</span>
    <input
      key={value}
      type="datetime-local"
      step={1}
      defaultValue={toLocalInput(value)}
      onBlur={({ target }) => target.value !== toLocalInput(value) && onValue(fromLocalInput(target.value))}
      className="h-8 rounded-md border border-line-strong bg-surface px-1.5 text-ink max-sm:min-w-0 max-sm:flex-1"
    />
  </label>
);

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
