import type { ReachEnd, ReachMatrix, ReachRow, ReachSide } from './analysis'
import type { Subject } from './imported'
import { LABEL_TAG, LABEL_USER_TAG } from './k8s'

// Who reaches whom as a table: rows and columns are groups of machines that have the same value of
// what the person sorts by, cells are the flows between them. The server puts them into groups and
// tells the part that is looked at.

/** NameOf says what to call the machine or Pod that an end of a row is. */
export type NameOf = (end: ReachEnd) => string

/**
 * names calls what is imported what it is called in the cloud, also where that is no legal label and the
 * answer has the id. A name that several machines have tells none of them, so these keep theirs.
 */
export function names(imported: Subject[]): NameOf {
  const byId = new Map<string, string>()
  const times = new Map<string, number>()
  for (const { kind, o } of imported) {
    const name = o.status?.cloudName
    if (name) {
      const full = `${kind.word}/${o.metadata.namespace}/${name}`
      byId.set(`${kind.word}/${o.metadata.namespace}/${o.metadata.name}`, full)
      times.set(full, (times.get(full) ?? 0) + 1)
    }
  }
  return (end) => {
    const full = byId.get(end.name)
    return full && times.get(full) === 1 ? full : end.name
  }
}

export function cellKey(row: string, column: string): string {
  return row + '\u0000' + column
}

/** A cell of the table as it is shown. */
export interface Cell {
  verdict: string
  text: string
  mixed: boolean
}

/** cellsOf are the cells of a table by the names of their groups. */
export function cellsOf(m: ReachMatrix): Map<string, Cell> {
  return new Map(m.cells.map((c) => [cellKey(m.rows[c.row]?.name ?? '', m.columns[c.column]?.name ?? ''), { verdict: c.verdict, text: c.text, mixed: c.mixed ?? false }]))
}

/** changedCells are the cells that are otherwise than in a table that was kept. */
export function changedCells(before: Map<string, Cell>, after: Map<string, Cell>): Set<string> {
  const out = new Set<string>()
  for (const key of new Set([...before.keys(), ...after.keys()])) {
    const a = before.get(key)
    const b = after.get(key)
    if (a?.verdict !== b?.verdict || a?.text !== b?.text) {
      out.add(key)
    }
  }
  return out
}

/** labelKeys are the keys by which one may group, the most telling first: tags before the rest. */
export function labelKeys(objects: { metadata: { labels?: Record<string, string> } }[]): string[] {
  const n = new Map<string, number>()
  for (const o of objects) {
    for (const k of Object.keys(o.metadata.labels ?? {})) {
      n.set(k, (n.get(k) ?? 0) + 1)
    }
  }
  const rank = (k: string) => (k.startsWith(LABEL_USER_TAG) ? 0 : k.startsWith(LABEL_TAG) ? 1 : k.includes('/') ? 3 : 2)
  return [...n.keys()].sort((a, b) => rank(a) - rank(b) || (n.get(b) ?? 0) - (n.get(a) ?? 0) || a.localeCompare(b)).slice(0, 60)
}

/** addressesText says which addresses a side is: in the server's words, which know exceptions. */
function addressesText(s: ReachSide): string {
  return s.addressesText ?? (s.rest ? 'the rest of ' : '') + (s.addresses ?? []).join(', ')
}

/** sideText names one side of a row for a table or file. */
export function sideText(s: ReachSide, nameOf: NameOf = (e) => e.name): string {
  const parts = (s.endpoints ?? []).map((e) => nameOf(e) + (e.public ? ' (public address)' : e.partly ? ' (' + e.addresses.join(' ') + ')' : ''))
  if (s.more) {
    parts.push(`${s.more} more`)
  }
  if (s.addresses?.length) {
    parts.push(addressesText(s))
  }
  if (s.hidden) {
    parts.push(`${s.hidden} that you may not see`)
  }
  return parts.join(', ')
}

/** flowKey tells the same flow in two answers, for what is before and after. */
function flowKeys(r: ReachRow): string[] {
  const names = (s: ReachSide) => [...(s.endpoints ?? []).map((e) => e.name + (e.public ? '!' : '')), ...(s.addresses?.length ? [s.addresses.join(',') + (s.rest ? '~' : '')] : [])]
  return names(r.from).flatMap((f) => names(r.to).map((t) => `${f} > ${t} ${r.traffic} ${r.verdict}`))
}

/** changes tells of each row of `after` whether all, some or none of it was there before. */
export function fresh(before: ReachRow[], after: ReachRow[]): Set<ReachRow> {
  const known = new Set(before.flatMap(flowKeys))
  return new Set(after.filter((r) => !flowKeys(r).every((k) => known.has(k))))
}
