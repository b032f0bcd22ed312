import { describe, expect, test } from 'vitest'
import { policyName, policyPath, type MapEdge, type MapNode, type PlanAnswer, type ReachMap } from '../src/lib/analysis'
import { changes, told } from '../src/lib/changes'
import { about, graph, roleOf, styleOf, wrap, type Filter, type Graph } from '../src/lib/graph'
import { free, layout, overlap } from '../src/lib/layout'
// @ts-expect-error: a script without types
import { makeWorld } from './world.mjs'

const node = (key: string, namespace: string, count = 3, more: Partial<MapNode> = {}): MapNode => ({ key, label: key, role: key, kind: 'VM', namespace, network: 'v1', count, members: [`vm/${namespace}/${key}`], ...more })
const edge = (from: string, to: string, more: Partial<MapEdge> = {}): MapEdge => ({ from, to, verdict: 'Allow', by: 'Policies', traffic: 'tcp 443', ranges: [{ protocol: 6, from: 443, to: 443 }], ...more })
const filter = (more: Partial<Filter> = {}): Filter => ({ view: 'now', open: new Set(), limit: 120, ...more })
const none = () => 'none' as const
const ids = (g: Graph) => g.edges.map((e) => e.id).sort()

const world: MapNode = { key: 'w', label: '0.0.0.0/0', kind: 'Addresses', addresses: ['0.0.0.0/0'] }
const small: ReachMap = {
  nodes: [node('a', 'v1'), node('b', 'v1'), node('c', 'v2'), world],
  edges: [edge('a', 'b'), edge('a', 'b', { traffic: 'tcp 80', ranges: [{ protocol: 6, from: 80, to: 80 }] }), edge('w', 'c', { verdict: 'Drop' }), edge('b', 'c', { change: 'Opens' }), edge('c', 'a', { change: 'Closes', by: 'Groups' })],
  total: 3,
}

describe('what is drawn', () => {
  test('what policies decide and the outside world, now and then', () => {
    expect(ids(graph(small, filter(), none))).toEqual(['a|b|allowed', 'w|c|blocked'])
    expect(ids(graph(small, filter({ view: 'plan' }), none))).toEqual(['a|b|allowed', 'b|c|allowed', 'w|c|blocked'])
  })
  test('what only their own groups allow is drawn for what is chosen', () => {
    const g = graph(small, filter({ chosen: 'c' }), none)
    expect(ids(g)).toEqual(['a|b|allowed', 'c|a|groups', 'w|c|blocked'])
    expect(graph(small, filter(), none).undrawn).toBe(1)
    expect(layout(g)).toEqual(layout(graph(small, filter(), none)))
  })
  test('edges of one kind between the same ends are one', () => {
    const e = graph(small, filter(), none).edges.find((x) => x.id === 'a|b|allowed')!
    expect([e.edges.length, e.label]).toEqual([2, 'tcp 80 +1'])
  })
  test('boxes are namespaces, networks of machines that no selector has chosen, and the outside', () => {
    const g = graph({ ...small, nodes: [...small.nodes, { key: 'u', label: 'u', kind: 'Unselected', network: '/subscriptions/0a/resourcegroups/x/providers/microsoft.network/virtualnetworks/data' }] }, filter(), none)
    expect(g.boxes.map((b) => b.label).sort()).toEqual(['chosen by no selector: data', 'namespace v1', 'namespace v2', 'outside world'])
  })
  test('boxes of a set are the namespaces of each cluster, and what is there of other clusters has no page here', () => {
    const of = (key: string, cluster: string, namespace: string) => node(key, namespace, 2, { kind: 'Pod', network: undefined, cluster })
    const g = graph({ nodes: [of('a', 'east', 'shop'), of('b', 'west', 'shop'), of('n', 'west', '')], edges: [edge('a', 'b')], total: 3 }, filter(), none)
    expect(g.boxes.map((b) => b.label).sort()).toEqual(['east: namespace shop', 'west: Nodes', 'west: namespace shop'])
    expect(ids(g)).toEqual(['a|b|allowed'])
    expect(graph({ nodes: [of('a', 'east', 'shop'), of('b', 'west', 'shop')], edges: [], total: 2 }, filter({ text: 'east' }), none).nodes.map((n) => n.id)).toEqual(['a'])
    const policy = { type: 'AntreaClusterNetworkPolicy', name: 'p', cluster: 'east' }
    expect([policyName(policy), policyPath(policy)]).toEqual(['east:p', ''])
  })
  test('who is looked for comes with whom he talks to', () => {
    expect(graph(small, filter({ text: 'vm/v1/b' }), none).nodes.map((n) => n.id).sort()).toEqual(['a', 'b'])
  })
  test('a port leaves out the rest', () => {
    expect(ids(graph(small, filter({ port: '80' }), none))).toEqual(['a|b|allowed'])
    expect(about(edge('a', 'b', { except: true, ranges: [{ protocol: 6, from: 22, to: 22 }] }), '22')).toBe(false)
    expect(about(edge('a', 'b', { except: true, ranges: [] }), '22')).toBe(true)
  })
  test('a verdict that is not known is never drawn as allowed', () => {
    expect(styleOf(edge('a', 'b', { by: 'Unknown' }), 'now')).toBe('unknown')
    expect(styleOf(edge('a', 'b', { verdict: 'Native' }), 'now')).toBe('groups')
  })
})

describe('everybody', () => {
  const names = ['a', 'b', 'c', 'd', 'e']
  const open = names.flatMap((x) => names.filter((y) => y !== x).map((y) => edge(x, y, { by: 'Groups', traffic: 'everything', ranges: [] })))
  const map: ReachMap = { nodes: [...names.map((n) => node(n, 'x')), world], edges: open, total: 5 }
  test('14 machines that reach one another are tints, and no edge', () => {
    const g = graph(map, filter(), none)
    expect(g.edges).toEqual([])
    expect(g.nodes.filter((n) => n.lines.includes('open to everybody')).map((n) => n.id)).toEqual(names)
  })
  test('where one may not, it is not everybody', () => {
    const g = graph({ ...map, edges: open.filter((e) => !(e.from === 'b' && e.to === 'a')) }, filter(), none)
    expect(g.nodes.find((n) => n.id === 'a')!.tints.filter((t) => t.way === 'in')).toEqual([])
    expect(g.nodes.find((n) => n.id === 'c')!.tints.filter((t) => t.way === 'in').map((t) => t.traffic)).toEqual(['everything'])
  })
  test('what policies let everybody do is a tint, too, and names them', () => {
    const dns = names.slice(1).map((n) => edge(n, 'a', { traffic: 'udp 53', policies: [{ type: 'AntreaClusterNetworkPolicy', name: 'dns' }] }))
    const g = graph({ ...map, edges: dns }, filter(), none)
    expect(g.edges).toEqual([])
    expect(g.nodes.find((n) => n.id === 'a')!.tints[0]!.policies[0]!.name).toBe('dns')
  })
  test('what all of a namespace may outside goes out of the box', () => {
    const g = graph({ ...map, nodes: [...map.nodes, node('z', 'y')], edges: names.map((n) => edge(n, 'w', { by: 'Nobody', traffic: 'everything' })) }, filter(), none)
    expect(ids(g)).toEqual(['ns:x|w|open'])
    expect(g.edges[0]!.edges.length).toBe(5)
  })
})

describe('roles and labels', () => {
  test('machines of one role are one node that opens', () => {
    const map: ReachMap = { nodes: [node('k1', 'x', 2, { role: 'web' }), node('k2', 'x', 5, { role: 'web' })], edges: [edge('k1', 'k2')], total: 2 }
    const closed = graph(map, filter(), none)
    expect(closed.nodes.map((n) => [n.label, n.count])).toEqual([['web', 7]])
    expect(ids(graph(map, filter({ open: new Set([closed.nodes[0]!.id]) }), none))).toEqual(['k1|k2|allowed'])
  })
  test('names that are counted tell a role, ids do not', () => {
    expect(roleOf({ key: 'x', label: 'border_01 and 1 more', kind: 'VM', members: ['vm/demo/border_01', 'vm/demo/border_02'] })).toBe('border')
    expect(roleOf({ key: 'x', label: 'i-075', kind: 'VM', members: ['vm/demo/i-075'] })).toBe('i-075')
  })
  test.each(['i-075dc46a9bc347264', 'eni-0aaaabbbbccccddddeeee', 'a name with many words of which none is short', 'an_ordinary-name.of.some-machine_01'])('%s stands whole', (label) => {
    expect(wrap(label).join('').replaceAll(' ', '')).toBe(label.replaceAll(' ', ''))
    expect(Math.max(...wrap(label).map((l) => l.length))).toBeLessThanOrEqual(22)
  })
  test('an id of a resource is called by its last part', () => {
    expect(wrap('/subscriptions/6e657068-656c/resourcegroups/data/providers/microsoft.compute/virtualmachines/db-1')).toEqual(['db-1'])
  })
})

/** look holds what everybody sees against the rules: nothing lies on anything else. */
function look(g: Graph): { nodes: number; lines: number } {
  const places = layout(g)
  const rects = g.nodes.map((n) => ({ id: n.id, box: n.box, kind: n.kind, rect: places.get(n.id)! }))
  for (const [i, a] of rects.entries()) for (const b of rects.slice(i + 1)) if (overlap(a.rect, b.rect)) throw new Error(`${a.id} lies on ${b.id}`)
  const boxes = g.boxes.flatMap((b) => (places.has(b.id) ? [{ id: b.id, rect: places.get(b.id)! }] : []))
  for (const [i, a] of boxes.entries()) for (const b of boxes.slice(i + 1)) if (overlap(a.rect, b.rect)) throw new Error(`box ${a.id} lies on box ${b.id}`)
  for (const r of rects) {
    const box = places.get(r.box)!
    if (r.rect.x < box.x - 1 || r.rect.y < box.y - 1 || r.rect.x + r.rect.width > box.x + box.width + 1 || r.rect.y + r.rect.height > box.y + box.height + 1) throw new Error(`${r.id} is not in its box`)
    // The title of a box has its place above all nodes.
    if (r.kind !== 'Box' && r.rect.y < box.y + 30) throw new Error(`${r.id} lies on the title of its box`)
  }
  expect(layout(g)).toEqual(places)
  return { nodes: g.nodes.length, lines: g.edges.length }
}

describe('the picture', () => {
  test.each([14, 24, 300, 2000, 10000])('of %i machines is one that can be read', (vms) => {
    const { review } = makeWorld({ vms })
    for (const view of ['now', 'plan'] as const) {
      const map = review('ReachReview', { grouped: true }).map as ReachMap
      for (const open of [new Set<string>(), new Set(graph(map, filter(), none).nodes.map((n) => n.id))]) {
        const { nodes, lines } = look(graph(map, filter({ view, open, styles: new Set(['allowed', 'open', 'groups', 'unknown']) }), none))
        expect(nodes).toBeLessThanOrEqual(open.size ? 400 : 120)
        expect(lines).toBeLessThanOrEqual(150)
      }
    }
  })
  test('labels that would lie on another one or on a node are not shown', () => {
    const r = (x: number) => ({ x, y: 0, width: 10, height: 10 })
    expect([...free([{ id: 'a', rect: r(0) }, { id: 'b', rect: r(5) }, { id: 'c', rect: r(30) }, { id: 'd', rect: r(50) }], [r(55)])]).toEqual(['a', 'c'])
  })
})

describe('level of detail', () => {
  const many: ReachMap = { nodes: [], edges: [], total: 0 }
  for (let n = 0; n < 40; n++) for (let i = 0; i < 50; i++) many.nodes.push(node(`${n}-${i}`, 'v' + n, 5))
  for (let n = 0; n < 39; n++) for (let i = 0; i < 50; i++) many.edges.push(edge(`${n}-${i}`, `${n + 1}-${i}`))
  test('2,000 classes are few nodes, and no machine is lost', () => {
    const g = graph(many, filter(), none)
    expect(look(g).nodes).toBeLessThanOrEqual(120)
    expect(g.nodes.reduce((n, x) => n + x.count, 0)).toBe(10_000)
    expect(g.edges.length).toBeLessThan(400)
  })
  test('a box that is opened shows its roles', () => {
    const g = graph(many, filter({ open: new Set(['ns:v7']) }), none)
    expect(g.nodes.filter((n) => n.id.startsWith('7-')).length).toBe(50)
    look(g)
  })
  test('a closed box has the worst of the rings in it', () => {
    const g = graph(many, filter({ limit: 10 }), (n) => (n.key === '3-3' ? 'failed' : 'enforced'))
    expect(g.nodes.find((n) => n.id === 'box:ns:v3')!.ring).toBe('failed')
  })
})

describe('the difference', () => {
  const plan = {
    asOf: '',
    warnings: [],
    warningReasons: [],
    accounts: [
      {
        account: 'cloud/a',
        reachability: [
          { region: 'r', opens: true, packets: { text: 'tcp 5432' }, from: { vms: ['app-1', 'app-2'] }, to: { vms: ['db-1'] } },
          { region: 'r', opens: false, packets: { text: 'everything' }, from: { addresses: ['0.0.0.0/0'], rest: true }, to: { vms: ['db-1', 'i-unknown'] } },
        ],
      },
    ],
  } as unknown as PlanAnswer
  const known = (_: string, __: string, name: string) => (name.startsWith('i-') ? undefined : { namespace: 'shop', role: name.split('-')[0], member: 'vm/shop/' + name })
  test('is what the plan lists, and nothing else', () => {
    const map = changes(plan, known)
    expect(map.nodes.map((n) => [n.label, n.count ?? 0])).toEqual([['app', 2], ['db', 1], ['the rest of 0.0.0.0/0', 0], ['i-unknown', 1]])
    const g = graph(map, filter({ view: 'diff' }), none)
    expect(g.edges.map((e) => `${e.style} ${e.label}`).sort()).toEqual(['closes everything', 'closes everything', 'opens tcp 5432'])
    // Every change of the plan has a line, and every line is a change of the plan.
    expect(new Set(g.edges.flatMap((e) => e.edges.map((x) => x.change + x.traffic)))).toEqual(new Set(plan.accounts[0]!.reachability.map((r) => (r.opens ? 'Opens' : 'Closes') + r.packets.text)))
    look(g)
  })
  test('is told in the words of the plan', () => {
    expect(told(plan.accounts[0]!).map((t) => t.text)).toEqual(['opens tcp 5432 from app-1, app-2 to db-1', 'closes everything from 0.0.0.0/0 to db-1, i-unknown'])
  })
})
