import { describe, expect, test } from 'vitest'
import type { MapNode } from '../src/lib/analysis'
import { findings, inEmergency, ringOf } from '../src/lib/derive'
import { graph } from '../src/lib/graph'
import { behind, findText, formOf, KINDS, named, NICS, ownerText, pathTo, portsText, searchText, SERVICES, subjects, VMS, what, type Kind, type Subject } from '../src/lib/imported'
import type { Imported, NativeService, Nic } from '../src/lib/k8s'

const object = (name: string, status: Imported['status']): Imported => ({ metadata: { name, namespace: 'shop' }, status })
const orders = object('rdsinstance-orders-0a1b', { cloudName: 'Orders', addresses: '10.0.0.20', tags: { team: 'shop' }, conditions: [{ type: 'Addressed', status: 'False', message: 'two databases look alike' }] }) as NativeService
orders.status = { ...orders.status, kind: 'RDSInstance', ports: [{ name: 'postgres', protocol: 'TCP', port: 5432 }], dnsName: 'orders.example.com' }
const inside = object('eni-0c1', { cloudName: 'firewall-inside', mode: 'break-glass' }) as Nic
const lists: Record<Kind['watch'], Imported[]> = { virtualmachines: [object('i-1', { cloudName: 'Orders', addresses: '10.0.0.10' })], cloudnativeservices: [orders], networkinterfaces: [inside] }
const world = { of: (w: Kind['watch']) => ({ list: () => lists[w], get: (ns: string | undefined, name: string) => lists[w].find((o) => o.metadata.name === name && o.metadata.namespace === ns) }) }
const all = subjects(world)
const names = (s: Subject | undefined) => s && `${s.kind.word} ${s.o.metadata.name}`

describe('what is imported', () => {
  test('is all kinds, each with its page', () => {
    expect(all.map(pathTo)).toEqual(['/workload/vm/shop/i-1', '/workload/cns/shop/rdsinstance-orders-0a1b', '/workload/nic/shop/eni-0c1'])
    expect(all.map(what)).toEqual(['VM', 'RDSInstance', 'interface'])
  })
  test('stands behind its ExternalEntity', () => {
    expect(KINDS.map((k) => names(behind(world, 'shop', k.prefix + lists[k.watch][0]!.metadata.name)))).toEqual(['vm i-1', 'cns rdsinstance-orders-0a1b', 'nic eni-0c1'])
    expect(behind(world, 'other', 'virtualmachine-i-1')).toBeUndefined()
    expect(behind(world, 'shop', 'my-own')).toBeUndefined()
  })
  test('is found by the name that a review has for it, of its own kind only', () => {
    expect(names(named(all, 'vm/shop/orders'))).toBe('vm i-1')
    expect(names(named(all, 'cns/shop/orders'))).toBe('cns rdsinstance-orders-0a1b')
    expect(names(named(all, 'nic/shop/eni-0c1'))).toBe('nic eni-0c1')
    expect(names(named(all, 'cns/shop/orders (cloudnativeservice-rdsinstance-orders-0a1b)'))).toBe('cns rdsinstance-orders-0a1b')
    for (const nobody of ['nic/shop/orders', 'cns/other/orders', 'pod/shop/orders', 'cns/shop/orders (cloudnativeservice-rdsinstance-orders-ffff)']) expect(named(all, nobody)).toBeUndefined()
  })
  test('is searched by kind, port, address, name in DNS and tag', () => {
    for (const text of ['rdsinstance', 'postgres', '5432/tcp', '10.0.0.20', 'orders.example.com', 'team=shop']) expect(searchText(all[1]!)).toContain(text)
    expect(searchText(all[2]!)).toContain('firewall-inside')
    // One looks for a machine by what it is, and for machines by their tags.
    expect(findText(all[1]!)).not.toContain('team=shop')
    expect(findText(all[1]!)).toContain('postgres')
  })
  test('says its ports and owner in words', () => {
    expect(portsText(orders)).toBe('postgres 5432/TCP')
    expect(ownerText(inside)).toBe('nothing')
    expect(ownerText({ ...inside, status: { attachedTo: { kind: 'VirtualMachine', cloudId: 'i-9' } } })).toBe('VM i-9')
  })
  test('counts as released, and needs a person, like a VM', () => {
    expect([ringOf(inside), inEmergency(inside, 0)]).toEqual(['released', true])
    expect(findings([], [], [], all)).toEqual([{ tone: 'warn', what: 'RDSInstance Orders', text: 'two databases look alike', path: pathTo(all[1]!) }])
  })
})

describe('on the map', () => {
  const node = (key: string, kind: string, service?: string): MapNode => ({ key, label: key, kind, service, network: 'v', count: 2, members: [] })
  const map = { nodes: [node('a', 'VM'), node('b', SERVICES.node, 'RDSCluster'), node('c', SERVICES.node, 'ApplicationGateway'), node('d', NICS.node)], edges: [], total: 4 }
  const drawn = (text = '', limit = 100) => graph(map, { view: 'now', open: new Set(), limit, text }, () => 'none').nodes
  test('a service has the form and the word of its kind', () => {
    expect(drawn().map((n) => [n.form, n.kind, n.noun])).toEqual([['machine', 'VM', 'machine'], ['database', 'RDSCluster', 'service'], ['balancer', 'ApplicationGateway', 'service'], ['nic', NICS.node, 'interface']])
  })
  test('it is found by its kind', () => {
    expect(drawn('rdscluster').map((n) => n.id)).toEqual(['b'])
  })
  test('what is in a closed box counts as machines', () => {
    expect(drawn('', 1).map((n) => [n.kind, n.noun])).toEqual([['Box', 'machine']])
  })
  test('a kind that is not known has a form, too', () => {
    expect([formOf(SERVICES.node, 'NewService'), formOf(SERVICES.node), formOf(VMS.node)]).toEqual(['endpoint', 'endpoint', 'machine'])
  })
})
