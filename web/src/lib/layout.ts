import type { Graph, GraphNode } from './graph'

// Where things stand on the map. It is worked out and not drawn by lot: the same map has the same
// picture, nothing lies on anything else, and what flows goes from left to right.

export interface Rect {
  x: number
  y: number
  width: number
  height: number
}

const CHARACTER = 6.7
const LINE = 14
const GAP = { column: 64, row: 24, box: 96 }
/** The frame of a box with its title. */
const FRAME = { side: 20, top: 40, bottom: 20 }
/** The frame of a group that is open. */
const INNER = { side: 12, top: 30, bottom: 12 }
const MOST_ROWS = 10

/** sizeOf is how large a node is: as large as what stands in it. */
export function sizeOf(n: GraphNode): { width: number; height: number } {
  const longest = Math.max(...n.lines.map((l) => l.length), 4)
  // Forms that are round or pointed have less room for text.
  const roomy = n.form === 'code' ? 1.5 : n.form === 'pod' || n.form === 'node' || n.form === 'endpoint' || n.form === 'balancer' ? 1.2 : 1
  return { width: Math.max(76, (longest * CHARACTER + 22) * roomy), height: Math.max(38, (n.lines.length * LINE + 16) * roomy) }
}

/** Something that has a place in a box: a node, or a group that is open with its nodes. */
interface Item {
  nodes: GraphNode[]
  rank: number
  tier: string
  label: string
  group: string
}

interface Block extends Rect {
  places: { id: string; rect: Rect }[]
}

/** ranks says how far each of the items is from where traffic comes in, along the edges between them. What is chosen moves nothing. */
function ranks(items: Item[], graph: Graph): void {
  const of = new Map(items.flatMap((x) => x.nodes.map((n) => [n.id, x] as const)))
  const next = graph.edges.flatMap((e) => {
    const from = of.get(e.from)
    const to = of.get(e.to)
    return from && to && from !== to && e.style !== 'blocked' && !e.extra ? [[from, to] as const] : []
  })
  // As many rounds as there are columns at most: what goes in a circle ends there.
  for (let round = 0; round < 6; round++) {
    for (const [from, to] of next) {
      if (to.rank <= from.rank && from.rank < 5) to.rank = from.rank + 1
    }
  }
}

/** stack puts rectangles into columns of the same rank, side by side. */
function stack(sizes: { id: string; rank: number; width: number; height: number }[], ordered: boolean): Block {
  const columns: (typeof sizes)[] = []
  const rows = ordered ? MOST_ROWS : Math.max(1, Math.round(Math.sqrt(sizes.length * 1.4)))
  let last: number | undefined
  for (const s of sizes) {
    const column = columns[columns.length - 1]
    if (!column || column.length >= rows || (ordered && s.rank !== last)) columns.push([s])
    else column.push(s)
    last = s.rank
  }
  const heights = columns.map((c) => c.reduce((h, s) => h + s.height + GAP.row, -GAP.row))
  const height = Math.max(...heights)
  const places: Block['places'] = []
  let x = 0
  columns.forEach((c, i) => {
    const width = Math.max(...c.map((s) => s.width))
    let y = (height - heights[i]!) / 2
    for (const s of c) {
      places.push({ id: s.id, rect: { x: x + (width - s.width) / 2, y, width: s.width, height: s.height } })
      y += s.height + GAP.row
    }
    x += width + (ordered ? GAP.column : GAP.row)
  })
  return { x: 0, y: 0, width: x - (ordered ? GAP.column : GAP.row), height, places }
}

/** layout gives every node and every box its rectangle. */
export function layout(graph: Graph): Map<string, Rect> {
  const out = new Map<string, Rect>()
  const blocks: { id: string; block: Block; outside: boolean }[] = []
  for (const box of graph.boxes) {
    const inside = graph.nodes.filter((n) => n.box === box.id)
    if (!inside.length) continue
    const groups = new Map<string, Item>()
    for (const n of inside) {
      const key = n.of || n.id
      const item = groups.get(key) ?? { nodes: [], rank: 0, tier: n.tier, label: n.label, group: n.of }
      item.nodes.push(n)
      groups.set(key, item)
    }
    const items = [...groups.values()]
    ranks(items, graph)
    const ordered = new Set(items.map((x) => x.rank)).size > 1
    items.sort((a, b) => a.rank - b.rank || a.tier.localeCompare(b.tier) || a.label.localeCompare(b.label, undefined, { numeric: true }))
    const inner = new Map<string, Block>()
    const sizes = items.map((item) => {
      if (!item.group) return { id: item.nodes[0]!.id, rank: item.rank, ...sizeOf(item.nodes[0]!) }
      const block = stack(item.nodes.map((n) => ({ id: n.id, rank: 0, ...sizeOf(n) })), false)
      inner.set(item.group, block)
      return { id: item.group, rank: item.rank, width: block.width + 2 * INNER.side, height: block.height + INNER.top + INNER.bottom }
    })
    const block = stack(sizes, ordered || box.kind === 'outside')
    const places: Block['places'] = []
    for (const p of block.places) {
      places.push(p)
      for (const q of inner.get(p.id)?.places ?? []) places.push({ id: q.id, rect: { ...q.rect, x: p.rect.x + INNER.side + q.rect.x, y: p.rect.y + INNER.top + q.rect.y } })
    }
    // A box that is closed is its one node, and has no frame.
    const bare = inside.length === 1 && inside[0]!.kind === 'Box'
    const title = bare ? 0 : box.label.length * 7.4 + 24
    const frame = bare ? { side: 0, top: 0, bottom: 0 } : FRAME
    const width = Math.max(block.width + 2 * frame.side, title)
    const indent = (width - block.width) / 2
    blocks.push({
      id: box.id,
      outside: box.kind === 'outside',
      block: { x: 0, y: 0, width, height: block.height + frame.top + frame.bottom, places: places.map((p) => ({ id: p.id, rect: { ...p.rect, x: p.rect.x + indent, y: p.rect.y + frame.top } })) },
    })
  }
  // The outside world is at the left; the others stand in rows that fill a screen, the tall ones first.
  const others = blocks.filter((b) => !b.outside).sort((a, b) => b.block.height - a.block.height || b.block.width - a.block.width || a.id.localeCompare(b.id))
  const area = others.reduce((n, b) => n + (b.block.width + GAP.box) * (b.block.height + GAP.box), 0)
  const wide = Math.max(Math.sqrt(area * 1.7), ...others.map((b) => b.block.width), 1)
  let x = 0
  let y = 0
  let tall = 0
  for (const { block } of others) {
    if (x > 0 && x + block.width > wide) {
      x = 0
      y += tall + GAP.box
      tall = 0
    }
    block.x = x
    block.y = y
    x += block.width + GAP.box
    tall = Math.max(tall, block.height)
  }
  const height = y + tall
  for (const { block } of blocks.filter((b) => b.outside)) {
    block.x = -block.width - GAP.box * 1.5
    block.y = (height - block.height) / 2
  }
  for (const { id, block } of blocks) {
    out.set(id, { x: block.x, y: block.y, width: block.width, height: block.height })
    for (const p of block.places) out.set(p.id, { ...p.rect, x: p.rect.x + block.x, y: p.rect.y + block.y })
  }
  return out
}

export const overlap = (a: Rect, b: Rect) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height

/** free picks, of labels in the order in which they matter, those that lie on no other one and on no node. */
export function free(labels: { id: string; rect: Rect }[], taken: Rect[]): Set<string> {
  const out = new Set<string>()
  const seen = [...taken]
  for (const l of labels) {
    if (!seen.some((t) => overlap(t, l.rect))) {
      out.add(l.id)
      seen.push(l.rect)
    }
  }
  return out
}
