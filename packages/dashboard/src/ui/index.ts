export { AnchorButton, Button, IconButton, LinkButton, Tooltip } from "./button.tsx";
export { Command, copy, CopyText, SecretOnce } from "./copy.tsx";
export { type Column, DataTable, ListTable } from "./data-table.tsx";
export { ConfirmDialog, type ConfirmDialogProps, Dialog, FormDialog } from "./dialog.tsx";
export {
  BarSelect,
  Checkbox,
  FilterSelect,
  namedOptions,
  NameInput,
  type Option,
  SearchInput,
  Select,
  Switch,
  TextArea,
  TextInput,
  TimeInput,
  TypedSearch,
} from "./field.tsx";
export { type Filters, keepView, MoreFilters, useFilters } from "./filters.tsx";
export { Finder, type FinderProps } from "./finder.tsx";
export { byteText, counted, durationText, jsonText, plural, readJson, shellLine, toLocalInput, withLocalTimes } from "./format.ts";
export { Diff, Json, JsonInput } from "./json.tsx";
export { lazyPart, loadPatiently } from "./lazy-part.ts";
export { Blank, copyAsRf, ListActions, Menu, type MenuEntry } from "./menu.tsx";
export { useOutage } from "./outage.ts";
export { Card, CardList, FailedSection, KeyValue, LinkTabs, LoadedPage, PageHeader, Section, Segments } from "./page.tsx";
export {
  combineLoaded,
  EmptyState,
  ErrorState,
  ErrorText,
  hasFailed,
  isNotFound,
  type Loaded,
  NoMatch,
  QueryState,
  Skeleton,
} from "./query-state.tsx";
export {
  Badge,
  ConfigState,
  DeploymentStatusBadge,
  HealthBadge,
  LastSeen,
  Meter,
  type Part,
  Progress,
  ReleaseState,
  RobotStatus,
  StatusBadge,
  type Tone,
} from "./status.tsx";
export { showTableAs, TableSettings, type TableView, useTableView } from "./table-view.tsx";
export { Bytes, cx, Duration, NameLink, Text, TextLine, ticker, Time, useNow } from "./text.tsx";
export { notifyDone, notifyError } from "./toasts.tsx";
