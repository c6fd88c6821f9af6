// The files created for a call, one row each. A stage that runs twice inserts its row once.

import { execFile } from "node:child_process";

export type ArtifactKind = "audio" | "transcript" | "analysis";

export interface ArtifactRow {
  org_id: string;
  call_id: string;
  kind: ArtifactKind;
  path: string;
}

export interface ArtifactTable {
  insert(row: ArtifactRow): Promise<void>;
}

/** The application's table (schema.sql). Values travel as psql variables, which it quotes itself. */
export function artifactTable(databaseUrl: string): ArtifactTable {
  return {
    insert: (row) =>
      new Promise((resolve, reject) => {
        const values = Object.entries(row).flatMap(([name, value]) => ["-v", `${name}=${value}`]);
        const psql = execFile("psql", ["-Xq", "-v", "ON_ERROR_STOP=1", ...values, databaseUrl], (error) =>
          error === null ? resolve() : reject(error),
        );
        psql.stdin?.end(
          "insert into call_artifacts (org_id, call_id, kind, path) values (:'org_id', :'call_id', :'kind', :'path') on conflict do nothing",
        );
      }),
  };
}

/** The same in memory. */
export class MemoryArtifacts implements ArtifactTable {
  rows = new Map<string, ArtifactRow>();

  async insert(row: ArtifactRow) {
    const key = `${row.org_id}/${row.call_id}/${row.kind}`;
    if (!this.rows.has(key)) this.rows.set(key, row);
  }
}
