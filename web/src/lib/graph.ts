import type { MapEdge, MapNode, ReachMap } from './analysis'
import type { Ring } from './derive'
import { formOf, NICS, SERVICES, type Form } from './imported'

// From the classes of a ReachMap to what is drawn. Classes stand in boxes, one for each Namespace,
// and in a box those of one tier and role are one node that opens. Lines are few: what policies
// decide, what the outside world has to do with it, and what is chosen. What everybody may is no
// line but a tint of the node.

export type View = 'now' | 'plan' | 'diff'

/** How an edge is drawn; each has a line and an arrow of its own, beside its colour. */
export type Style = 'allowed' | 'open' | 'groups' | 'unknown' | 'blocked' | 'opens' | 'closes'

export interface Box {
  id: string
  label: string
  kind: 'network' | 'namespace' | 'outside'
  classes: number
  machines: number
  open: boolean
}

/** What everybody on the map may: reach this one, or be reached by it. */
export interface Tint {
  way: 'in' | 'out'
  style: Style
  traffic: string
  policies: NonNullable<MapEdge['policies']>
}

export interface GraphNode {
  id: string
  box: string
  /** The group of classes that it was opened from; empty if it was not. */
  of: string
  label: string
  /** What stands in it, line by line. */
  lines: string[]
  tier: string
  kind: string
  form: Form
  /** What one of those is called that it counts. */
  noun: 'machine' | 'service' | 'interface'
  count: number
  ring: Ring
  tints: Tint[]
  /** The classes that it stands for. */
  classes: MapNode[]
}

export interface GraphEdge {
  id: string
  /** A node, or a box where all edges that go there are one. */
  from: string
  to: string
  style: Style
  label: string
  edges: MapEdge[]
  /** It is drawn only because one of its ends is chosen. */
  extra: boolean
  /** What was seen of it, where that is asked for. */
  use?: 'used' | 'unused' | 'tried'
}

export interface Graph {
  boxes: Box[]
  nodes: GraphNode[]
  edges: GraphEdge[]
  /** How many classes have traffic with one another that is not drawn unless one is chosen. */
  undrawn: number
}

export interface Filter {
  view: View
  text?: string
  styles?: Set<Style>
  port?: string
  /** The boxes and groups that are open. */
  open: Set<string>
  /** What is chosen: a node, a box or an edge. All edges of it are drawn. */
  chosen?: string
  /** What a network is called. */
  networkName?: (id: string) => string
  /** How many nodes are drawn. */
  limit: number
}

/** lastPart is what a resource is called within its id; anything else is given back whole. */
export function lastPart(id: string): string {
  return /^(arn:|\/subscriptions\/)/i.test(id) ? id.slice(Math.max(id.lastIndexOf('/'), id.lastIndexOf(':')) + 1) : id
}

/** boxOf is the box that a class lies in. */
export function boxOf(n: MapNode, networkName: (id: string) => string = (id) => id): { id: string; label: string; kind: Box['kind'] } {
  if (n.kind === 'Addresses') {
    return { id: 'outside', label: 'outside world', kind: 'outside' }
  }
  if (n.cluster) {
    const place = n.namespace ? 'namespace ' + n.namespace : 'Nodes'
    return { id: `cluster:${n.cluster}:${n.namespace ?? ''}`, label: `${n.cluster}: ${place}`, kind: 'namespace' }
  }
  if (n.namespace) {
    return { id: 'ns:' + n.namespace, label: 'namespace ' + n.namespace, kind: 'namespace' }
  }
  if (n.network) {
    return { id: `net:${n.account ?? ''}:${n.region ?? ''}:${n.network}`, label: ['chosen by no selector: ' + lastPart(networkName(n.network)), n.region].filter(Boolean).join(' · '), kind: 'network' }
  }
  return { id: 'ns:', label: n.kind === 'Node' ? 'Nodes' : 'without a namespace', kind: 'namespace' }
}

export function styleOf(e: MapEdge, view: View): Style | undefined {
  if (view === 'diff') {
    return e.change === 'Opens' ? 'opens' : e.change === 'Closes' ? 'closes' : undefined
  }
  if ((view === 'now' && e.change === 'Opens') || (view === 'plan' && e.change === 'Closes')) {
    return undefined
  }
  if (e.verdict === 'Drop' || e.verdict === 'Reject') {
    return 'blocked'
  }
  // Native says who decides, also where it is not known what these groups do.
  if (e.verdict === 'Native') {
    return 'groups'
  }
  if (e.verdict === 'Unknown' || e.by === 'Unknown') {
    return 'unknown'
  }
  if (e.by === 'Groups') {
    return 'groups'
  }
  return e.by === 'Nobody' ? 'open' : 'allowed'
}

/** about tells whether the edge is about that port, of any protocol with ports. */
export function about(e: MapEdge, port: string): boolean {
  if (!port) {
    return true
  }
  const n = Number(port)
  if (!Number.isInteger(n)) {
    return e.traffic.toLowerCase().includes(port.toLowerCase())
  }
  const inside = (e.ranges ?? []).some((r) => [6, 17, 132].includes(r.protocol) && r.from <= n && n <= r.to)
  return e.except ? !(e.ranges ?? []).some((r) => r.protocol === 6 && r.from <= n && n <= r.to) : inside
}

const WORST: Ring[] = ['failed', 'released', 'planned', 'enforced', 'none']

export function worst(rings: Ring[]): Ring {
  return WORST.find((r) => rings.includes(r)) ?? 'none'
}

function matches(n: MapNode, text: string): boolean {
  return [n.label, n.role, n.tier, n.service, n.namespace, n.cluster, n.network, n.account, n.region, ...(n.members ?? []), ...(n.addresses ?? []), ...(n.policies ?? []).map((p) => p.name)].join(' ').toLowerCase().includes(text)
}

function nounOf(n: MapNode): GraphNode['noun'] {
  return n.kind === SERVICES.node ? 'service' : n.kind === NICS.node ? 'interface' : 'machine'
}

/** roleOf is what the machines of a class do: their label, or what is common to names that are counted. */
export function roleOf(n: MapNode): string {
  if (n.kind === 'Addresses' || n.kind === SERVICES.node || n.kind === NICS.node) {
    return n.label
  }
  if (n.role) {
    return n.role
  }
  const names = (n.members ?? []).map((m) => m.slice(m.lastIndexOf('/') + 1))
  const stems = [...new Set(names.map((m) => /^(.*[a-z])[-_.]?\d+$/i.exec(m)?.[1] ?? m))]
  return stems.length === 1 && !/^(i|eni|vm)-?$/.test(stems[0]!) ? stems[0]! : n.label
}

const EVERYWHERE: Record<string, string> = { '0.0.0.0/0': 'everywhere', '::/0': 'everywhere (IPv6)', 'the rest of 0.0.0.0/0': 'everywhere else', 'the rest of ::/0': 'everywhere else (IPv6)' }

/** Most characters of a line in a node, and most lines of a label. */
const LINE = 22
const LINES = 4

/** called is what a class is called on the map. */
export const called = (label: string) => EVERYWHERE[label] ?? lastPart(label)

/** wrap breaks a label into lines. It stands whole, but for a name that is longer than any cloud allows. */
export function wrap(label: string): string[] {
  const text = called(label)
  const pieces = text.match(/[^\s\-_./:,]*[\s\-_./:,]?/g)?.filter(Boolean) ?? [text]
  const lines: string[] = []
  let line = ''
  for (let piece of pieces) {
    if (line && line.length + piece.trimEnd().length > LINE) {
      lines.push(line.trimEnd())
      line = ''
    }
    while (piece.length > LINE) {
      lines.push(piece.slice(0, LINE))
      piece = piece.slice(LINE)
    }
    line += piece
  }
  if (line.trim()) {
    lines.push(line.trimEnd())
  }
  return lines.length > LINES ? [...lines.slice(0, LINES - 1), '… (' + text.length + ' characters)'] : lines
}

/** What of the traffic between machines policies have a hand in. */
const decided = (e: MapEdge) => e.by === 'Policies' || (e.policies?.length ?? 0) > 0

/** everybody finds, for each class, what all other machines have to do with it. */
function everybody(classes: MapNode[], edges: { e: MapEdge; style: Style }[]): Map<string, Tint[]> {
  const machines = new Set(classes.filter((n) => n.kind !== 'Addresses').map((n) => n.key))
  const seen = new Map<string, { key: string; tint: Tint; others: Set<string> }>()
  const note = (key: string, way: Tint['way'], other: string, e: MapEdge, style: Style) => {
    if (key === other || !machines.has(other)) {
      return
    }
    const id = `${key}|${way}|${style}|${e.traffic}`
    const found = seen.get(id) ?? { key, tint: { way, style, traffic: e.traffic, policies: e.policies ?? [] }, others: new Set<string>() }
    found.others.add(other)
    seen.set(id, found)
  }
  for (const { e, style } of edges) {
    note(e.to, 'in', e.from, e, style)
    note(e.from, 'out', e.to, e, style)
  }
  const out = new Map<string, Tint[]>()
  for (const { key, tint, others } of seen.values()) {
    const all = machines.size - (machines.has(key) ? 1 : 0)
    // Three lines are easily followed; from there on it is a crowd.
    if (others.size === all && all > 3) {
      out.set(key, [...(out.get(key) ?? []), tint])
    }
  }
  return out
}

const sameTint = (a: Tint, b: Tint) => a.way === b.way && a.style === b.style && a.traffic === b.traffic

/** From so many lines on those between two boxes are one. */
const CROWD = 60

/** graph is what is drawn of a map. */
export function graph(map: ReachMap, filter: Filter, ring: (n: MapNode) => Ring): Graph {
  const text = (filter.text ?? '').trim().toLowerCase()
  const told = map.edges.flatMap((e) => {
    const style = styleOf(e, filter.view)
    return style && about(e, filter.port ?? '') ? [{ e, style }] : []
  })
  const tints = filter.view === 'diff' ? new Map<string, Tint[]>() : everybody(map.nodes, told)
  const asked = told.filter(({ style }) => !filter.styles || filter.styles.has(style))
  let keep = map.nodes
  if (text) {
    // Who is looked for, and whom he talks to.
    const hit = new Set(map.nodes.filter((n) => matches(n, text)).map((n) => n.key))
    const near = new Set(hit)
    for (const { e } of asked) {
      if (hit.has(e.from)) near.add(e.to)
      if (hit.has(e.to)) near.add(e.from)
    }
    keep = map.nodes.filter((n) => near.has(n.key))
  } else if (filter.view === 'diff') {
    const changed = new Set(asked.flatMap(({ e }) => [e.from, e.to]))
    keep = map.nodes.filter((n) => changed.has(n.key))
  }

  const boxes = new Map<string, Box & { groups: Map<string, MapNode[]> }>()
  for (const n of keep) {
    const b = boxOf(n, filter.networkName)
    const box = boxes.get(b.id) ?? { ...b, classes: 0, machines: 0, open: true, groups: new Map<string, MapNode[]>() }
    box.classes++
    box.machines += n.count ?? 0
    const key = `group:${b.id}:${n.kind}:${n.service ?? ''}:${n.tier ?? ''}:${roleOf(n)}`
    box.groups.set(key, [...(box.groups.get(key) ?? []), n])
    boxes.set(b.id, box)
  }
  // All boxes are open while that is little to look at; else those that the person has opened, then
  // the small ones.
  let room = filter.limit
  for (const b of [...boxes.values()].sort((x, y) => Number(filter.open.has(y.id)) - Number(filter.open.has(x.id)) || x.groups.size - y.groups.size)) {
    b.open = filter.open.has(b.id) || b.groups.size <= Math.max(1, room - boxes.size)
    room -= b.open ? b.groups.size : 1
  }

  const at = new Map<string, string>()
  const nodes: GraphNode[] = []
  const add = (id: string, box: string, of: string, label: string, classes: MapNode[], more: Partial<GraphNode> = {}) => {
    const [first] = classes
    const count = classes.reduce((n, c) => n + (c.count ?? 0), 0)
    const common = (tints.get(first!.key) ?? []).filter((t) => classes.every((c) => (tints.get(c.key) ?? []).some((x) => sameTint(x, t))))
    const node: GraphNode = { id, box, of, label: called(label), lines: [], tier: first!.tier ?? '', kind: first!.service || first!.kind, form: formOf(first!.kind, first!.service), noun: nounOf(first!), count, ring: worst(classes.map(ring)), tints: common, classes, ...more }
    node.lines = linesOf(node)
    nodes.push(node)
    for (const n of classes) at.set(n.key, id)
  }
  for (const b of boxes.values()) {
    if (!b.open) {
      add('box:' + b.id, b.id, '', b.label, [...b.groups.values()].flat(), { kind: 'Box', form: 'machine', noun: 'machine', tier: '', tints: [] })
      continue
    }
    for (const [key, classes] of b.groups) {
      if (classes.length > 1 && !filter.open.has(key)) {
        add(key, b.id, '', roleOf(classes[0]!), classes)
      } else {
        for (const n of classes) add(n.key, b.id, classes.length > 1 ? key : '', classes.length > 1 ? n.label : roleOf(n), [n])
      }
    }
  }

  const of = new Map(nodes.map((n) => [n.id, n]))
  const world = new Set(map.nodes.filter((n) => n.kind === 'Addresses').map((n) => n.key))
  const edges = new Map<string, GraphEdge>()
  const put = (from: string, to: string, style: Style, e: MapEdge, extra: boolean) => {
    const id = `${from}|${to}|${style}`
    const edge = edges.get(id)
    if (edge) {
      edge.edges.push(e)
      edge.extra &&= extra
    } else {
      edges.set(id, { id, from, to, style, label: '', edges: [e], extra })
    }
  }
  const ends = asked.flatMap(({ e, style }) => {
    const from = at.get(e.from)
    const to = at.get(e.to)
    return from && to && !(from === to && (of.get(from)!.classes.length > 1 || e.from !== e.to)) ? [{ e, style, from, to }] : []
  })
  const chosen = filter.chosen ?? ''
  let undrawn = 0
  const drawn = ends.flatMap((end) => {
    const { e, style, from, to } = end
    const is = (t: Tint) => t.style === style && t.traffic === e.traffic
    const tinted = (tints.get(e.to) ?? []).some((t) => t.way === 'in' && is(t)) || (tints.get(e.from) ?? []).some((t) => t.way === 'out' && is(t))
    if (filter.view === 'diff' || (!tinted && (decided(e) || world.has(e.from) || world.has(e.to)))) return [{ ...end, extra: false }]
    if (chosen && [from, to, `${from}|${to}|${style}`, of.get(from)!.box, of.get(to)!.box].includes(chosen)) return [{ ...end, extra: true }]
    undrawn++
    return []
  })
  // What all of a box have in common with another one goes from the box. So does everything that
  // crosses its border where there is a crowd of lines. What is chosen stands for itself.
  const whole = new Map<string, Set<string>>()
  const side = (way: string, box: string, other: string, style: Style, e: MapEdge) => [way, box, other, style, e.traffic].join('|')
  for (const { e, style, from, to } of drawn) {
    for (const [key, member] of [[side('from', of.get(from)!.box, to, style, e), e.from], [side('to', of.get(to)!.box, from, style, e), e.to]] as const) {
      whole.set(key, (whole.get(key) ?? new Set()).add(member))
    }
  }
  const crowd = new Set(drawn.filter((d) => !d.extra).map(({ from, to, style }) => `${from}|${to}|${style}`)).size > CROWD
  for (const { e, style, from, to, extra } of drawn) {
    const [a, b] = [of.get(from)!, of.get(to)!]
    const near = chosen !== '' && (chosen === from || chosen === to || chosen === `${from}|${to}|${style}`)
    const lift = (n: GraphNode, key: string) => {
      const box = boxes.get(n.box)!
      const all = box.classes > 1 && whole.get(key)!.size === box.classes
      return !near && filter.view !== 'diff' && n.kind !== 'Box' && a.box !== b.box && (crowd || (all && box.kind !== 'outside')) ? n.box : n.id
    }
    put(lift(a, side('from', a.box, to, style, e)), lift(b, side('to', b.box, from, style, e)), style, e, extra)
  }
  for (const e of edges.values()) {
    const texts = [...new Set(e.edges.map((x) => x.traffic))].sort((x, y) => x.length - y.length)
    e.label = texts.length > 1 ? (texts[0]!.length > 18 ? `${texts.length} kinds of traffic` : `${texts[0]} +${texts.length - 1}`) : texts[0]!
    if (e.label.length > 30) {
      e.label = e.edges[0]!.except ? 'all but a few' : 'several ports'
    }
  }
  return { boxes: [...boxes.values()].map(({ groups: _, ...b }) => b), nodes, edges: [...edges.values()], undrawn }
}

/** linesOf is what stands in a node. */
function linesOf(n: GraphNode): string[] {
  const lines = wrap(n.label)
  const own = n.noun !== 'machine'
  if (n.kind === 'Box') {
    lines.push(`${n.classes.length} kinds of machines`, `${n.count} in all`)
  } else if (own) {
    lines.push(n.kind + (n.count > 1 ? ' × ' + n.count : ''))
  } else if (n.kind === 'Addresses') {
    if (n.classes.length > 1) lines.push(n.classes.length + ' blocks')
  } else if (n.count > 1) {
    lines.push(n.count + (n.kind === 'Pod' ? ' Pods' : ' machines'))
  }
  if (n.tier) {
    lines.push('tier ' + n.tier)
  }
  if (n.tints.some((t) => t.way === 'in' && t.style !== 'blocked')) {
    lines.push('open to everybody')
  }
  return lines
}
