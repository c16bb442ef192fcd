export { AUDIT_COLUMNS } from "./audit-columns.tsx";
export { AuditDetails } from "./audit-details.tsx";
