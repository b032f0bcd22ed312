import type { ReachEnd, ReachRow, ReachSide } from './analysis'
import type { Subject } from './imported'
import { LABEL_TAG, LABEL_USER_TAG, type Entity, type Pod } from './k8s'

// Who reaches whom as a table: rows and columns are groups of machines that have the same value of
// what the person sorts by, cells are the flows between them.

/** labelsOf finds the labels of the machine or Pod that an end of a row is. */
export type LabelsOf = (end: ReachEnd) => Record<string, string> | undefined

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

/** lookup finds labels in lists of objects. */
export function lookup(entities: { get(ns: string | undefined, name: string): Entity | undefined }, pods: { get(ns: string | undefined, name: string): Pod | undefined }): LabelsOf {
  return (end) => {
    const o = end.kind === 'Pod' ? pods.get(end.namespace, end.object ?? '') : entities.get(end.namespace, end.object ?? '')
    return o?.metadata.labels
  }
}

export const OUTSIDE = 'outside'

/** by is what machines are grouped by: 'machine', 'namespace', 'kind', or the key of a label. */
export function groupOf(end: ReachEnd, by: string, labels: LabelsOf, nameOf: NameOf = (e) => e.name): string {
  switch (by) {
    case 'machine':
      return nameOf(end)
    case 'namespace':
      return end.namespace ?? '(none)'
    case 'kind':
      return end.kind ?? '(none)'
  }
  return labels(end)?.[by] ?? '(without)'
}

/** sides are the groups that one side of a row belongs to, with the names of those in each. */
export function sides(s: ReachSide, by: string, labels: LabelsOf, nameOf: NameOf = (e) => e.name): Map<string, string[]> {
  const out = new Map<string, string[]>()
  const add = (group: string, name: string) => {
    const all = out.get(group)
    if (all) {
      all.push(name)
    } else {
      out.set(group, [name])
    }
  }
  for (const e of s.endpoints ?? []) {
    add(groupOf(e, by, labels, nameOf), nameOf(e))
  }
  if (s.addresses?.length) {
    add(by === 'machine' && s.addresses.length === 1 ? s.addresses[0]! : OUTSIDE, addressesText(s))
  }
  if (s.hidden) {
    add('(not visible)', `${s.hidden} that you may not see`)
  }
  return out
}

export interface CellFlow {
  row: ReachRow
  from: string[]
  to: string[]
}

export interface Cell {
  flows: CellFlow[]
  /** The strongest of the verdicts, and whether there are others beside it. */
  verdict: string
  mixed: boolean
  /** What passes, in a few words. */
  text: string
}

export interface Matrix {
  rows: string[]
  columns: string[]
  cells: Map<string, Cell>
}

const ORDER = ['Allow', 'Native', 'Unknown', 'Reject', 'Drop']

export function cellKey(row: string, column: string): string {
  return row + '\u0000' + column
}

/** matrix sorts rows of an answer into a table. */
export function matrix(rows: ReachRow[], by: string, labels: LabelsOf, nameOf: NameOf = (e) => e.name): Matrix {
  const cells = new Map<string, Cell>()
  const from = new Set<string>()
  const to = new Set<string>()
  for (const row of rows) {
    const tos = sides(row.to, by, labels, nameOf)
    for (const [f, fromNames] of sides(row.from, by, labels, nameOf)) {
      from.add(f)
      for (const [t, toNames] of tos) {
        to.add(t)
        const key = cellKey(f, t)
        const cell = cells.get(key)
        const flow = { row, from: fromNames, to: toNames }
        if (cell) {
          cell.flows.push(flow)
        } else {
          cells.set(key, { flows: [flow], verdict: '', mixed: false, text: '' })
        }
      }
    }
  }
  for (const c of cells.values()) {
    const verdicts = new Set(c.flows.map((f) => f.row.verdict))
    c.verdict = ORDER.find((v) => verdicts.has(v)) ?? 'Unknown'
    c.mixed = verdicts.size > 1
    const texts = [...new Set(c.flows.filter((f) => f.row.verdict === c.verdict).map((f) => f.row.traffic))]
    c.text = texts.includes('everything') ? 'everything' : texts.slice(0, 3).join(', ') + (texts.length > 3 ? ` +${texts.length - 3}` : '')
  }
  const order = (a: string, b: string) => Number(special(a)) - Number(special(b)) || a.localeCompare(b, 'en', { numeric: true })
  return { rows: [...from].sort(order), columns: [...to].sort(order), cells }
}

function special(group: string): boolean {
  return group === OUTSIDE || group.startsWith('(')
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
