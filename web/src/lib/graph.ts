import type { MapEdge, MapNode, ReachMap } from './analysis'
import type { Ring } from './derive'
import { formOf, NICS, SERVICES, type Form } from './imported'

// From the classes of a ReachMap to what is drawn: boxes, nodes, and edges that are bundled. Where
// there are more classes than one can look at, those of a box become one node that opens.

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

export interface GraphNode {
  id: string
  box: string
  label: string
  kind: string
  form: Form
  /** What one of those is called that it counts. */
  noun: 'machine' | 'service' | 'interface'
  count: number
  ring: Ring
  /** The classes that it stands for; one, unless it is a box that is closed. */
  classes: MapNode[]
}

export interface GraphEdge {
  id: string
  from: string
  to: string
  style: Style
  label: string
  edges: MapEdge[]
}

export interface Graph {
  boxes: Box[]
  nodes: GraphNode[]
  edges: GraphEdge[]
}

export interface Filter {
  view: View
  text?: string
  styles?: Set<Style>
  port?: string
  open: Set<string>
  /** What a network is called. */
  networkName?: (id: string) => string
  /** How many classes are drawn one by one. */
  limit: number
}

/** boxOf is the box that a class lies in. */
export function boxOf(n: MapNode, networkName: (id: string) => string = (id) => id): { id: string; label: string; kind: Box['kind'] } {
  if (n.kind === 'Addresses') {
    return { id: 'outside', label: 'outside world', kind: 'outside' }
  }
  if (n.network) {
    return { id: `net:${n.account ?? ''}:${n.region ?? ''}:${n.network}`, label: [networkName(n.network), n.region].filter(Boolean).join(' · '), kind: 'network' }
  }
  return { id: 'ns:' + (n.namespace ?? ''), label: n.kind === 'Node' && !n.namespace ? 'Nodes' : 'namespace ' + (n.namespace || '(none)'), kind: 'namespace' }
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
  return [n.label, n.service, n.namespace, n.network, n.account, n.region, ...(n.members ?? []), ...(n.addresses ?? []), ...(n.policies ?? []).map((p) => p.name)].join(' ').toLowerCase().includes(text)
}

function nounOf(n: MapNode): GraphNode['noun'] {
  return n.kind === SERVICES.node ? 'service' : n.kind === NICS.node ? 'interface' : 'machine'
}

/** graph is what is drawn of a map. */
export function graph(map: ReachMap, filter: Filter, ring: (n: MapNode) => Ring): Graph {
  const text = (filter.text ?? '').trim().toLowerCase()
  const drawn = map.edges.flatMap((e) => {
    const style = styleOf(e, filter.view)
    return style && (!filter.styles || filter.styles.has(style)) && about(e, filter.port ?? '') ? [{ e, style }] : []
  })
  let keep = map.nodes
  if (text) {
    // Who is looked for, and whom he talks to.
    const hit = new Set(map.nodes.filter((n) => matches(n, text)).map((n) => n.key))
    const near = new Set(hit)
    for (const { e } of drawn) {
      if (hit.has(e.from)) near.add(e.to)
      if (hit.has(e.to)) near.add(e.from)
    }
    keep = map.nodes.filter((n) => near.has(n.key))
  } else if (filter.view === 'diff') {
    const changed = new Set(drawn.flatMap(({ e }) => [e.from, e.to]))
    keep = map.nodes.filter((n) => changed.has(n.key))
  }

  const boxes = new Map<string, Box & { nodes: MapNode[] }>()
  for (const n of keep) {
    const b = boxOf(n, filter.networkName)
    const box = boxes.get(b.id) ?? { ...b, classes: 0, machines: 0, open: true, nodes: [] }
    box.classes++
    box.machines += n.count ?? 0
    box.nodes.push(n)
    boxes.set(b.id, box)
  }
  // All boxes are open while that is little to look at; else the small ones first, and those that
  // the person has opened.
  let room = filter.limit
  for (const b of [...boxes.values()].sort((x, y) => Number(filter.open.has(y.id)) - Number(filter.open.has(x.id)) || x.classes - y.classes)) {
    b.open = filter.open.has(b.id) || b.classes <= Math.max(1, Math.min(room, keep.length <= filter.limit ? room : room / 2))
    room -= b.open ? b.classes : 1
  }

  const at = new Map<string, string>()
  const nodes: GraphNode[] = []
  for (const b of boxes.values()) {
    if (b.open) {
      for (const n of b.nodes) {
        at.set(n.key, n.key)
        nodes.push({ id: n.key, box: b.id, label: n.label, kind: n.service || n.kind, form: formOf(n.kind, n.service), noun: nounOf(n), count: n.count ?? 0, ring: ring(n), classes: [n] })
      }
    } else {
      const id = 'box:' + b.id
      for (const n of b.nodes) {
        at.set(n.key, id)
      }
      nodes.push({ id, box: b.id, label: b.label, kind: 'Box', form: 'machine', noun: 'machine', count: b.machines, ring: worst(b.nodes.map(ring)), classes: b.nodes })
    }
  }

  const edges = new Map<string, GraphEdge>()
  for (const { e, style } of drawn) {
    const from = at.get(e.from)
    const to = at.get(e.to)
    if (!from || !to || (from === to && from.startsWith('box:'))) {
      continue
    }
    const id = `${from}|${to}|${style}`
    const edge = edges.get(id)
    if (edge) {
      edge.edges.push(e)
    } else {
      edges.set(id, { id, from, to, style, label: '', edges: [e] })
    }
  }
  for (const e of edges.values()) {
    const texts = [...new Set(e.edges.map((x) => x.traffic))]
    e.label = texts.length > 2 ? `${texts[0]} +${texts.length - 1}` : texts.join(', ')
    if (e.label.length > 34) {
      e.label = e.label.slice(0, 32) + '…'
    }
  }
  return { boxes: [...boxes.values()].map(({ nodes: _, ...b }) => b), nodes, edges: [...edges.values()] }
}
