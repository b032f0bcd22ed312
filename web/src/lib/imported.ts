import { vmName, type Imported, type NativeService, type Nic, type VM } from './k8s'

// What is imported from clouds: machines, native services, and interfaces by themselves. One word
// stands for each kind in addresses of the page and in names of reviews.

export type Word = 'vm' | 'cns' | 'nic'

export interface Kind {
  word: Word
  /** The names of its ExternalEntities begin so. */
  prefix: string
  watch: 'virtualmachines' | 'cloudnativeservices' | 'networkinterfaces'
  /** One and many, for people. */
  one: string
  many: string
  /** The kind of a node on the map. */
  node: string
}

export const VMS: Kind = { word: 'vm', prefix: 'virtualmachine-', watch: 'virtualmachines', one: 'VM', many: 'VMs', node: 'VM' }
export const SERVICES: Kind = { word: 'cns', prefix: 'cloudnativeservice-', watch: 'cloudnativeservices', one: 'service', many: 'services', node: 'CloudNativeService' }
export const NICS: Kind = { word: 'nic', prefix: 'networkinterface-', watch: 'networkinterfaces', one: 'interface', many: 'interfaces', node: 'NetworkInterface' }
export const KINDS: Kind[] = [VMS, SERVICES, NICS]

/** kindOf finds the kind that a word stands for. */
export function kindOf(word: string): Kind | undefined {
  return KINDS.find((k) => k.word === word)
}

/** Something imported, with its kind. */
export interface Subject {
  kind: Kind
  o: Imported
}

interface Lists {
  of(watch: Kind['watch']): { list(): Imported[]; get(namespace: string | undefined, name: string): Imported | undefined }
}

/** subjects is all that is imported: machines, services, interfaces. */
export function subjects(lists: Lists): Subject[] {
  return KINDS.flatMap((kind) => lists.of(kind.watch).list().map((o) => ({ kind, o })))
}

/** behind is what an ExternalEntity stands for; undefined for one that somebody has made himself. */
export function behind(lists: Lists, namespace: string | undefined, entity: string): Subject | undefined {
  const kind = KINDS.find((k) => entity.startsWith(k.prefix))
  const o = kind && lists.of(kind.watch).get(namespace, entity.slice(kind.prefix.length))
  return o && { kind, o }
}

/** what says what it is, as exactly as the cloud: RDSInstance for a database. */
export function what(s: Subject): string {
  return s.kind === SERVICES ? ((s.o as NativeService).status?.kind ?? 'service') : s.kind.one
}

/** pathTo is its page. */
export function pathTo(s: Subject): string {
  return `/workload/${s.kind.word}/${encodeURIComponent(s.o.metadata.namespace ?? '')}/${encodeURIComponent(s.o.metadata.name)}`
}

/** named finds what a name of a review means: vm/shop/web-1, cns/shop/orders, nic/shop/eni-1. */
export function named(all: Subject[], name: string): Subject | undefined {
  const m = /^(vm|cns|nic)\/([^/]+)\/(.+)$/.exec(name)
  if (!m) {
    return undefined
  }
  // Two of the same name are told apart by their entity, in brackets.
  const entity = / \((\S+)\)$/.exec(m[3]!)?.[1]
  return all.find(({ kind, o }) => kind.word === m[1] && o.metadata.namespace === m[2] && (entity ? kind.prefix + o.metadata.name.toLowerCase() === entity : o.metadata.name === m[3] || vmName(o).toLowerCase() === m[3]!.toLowerCase()))
}

/** portsText says what ports a service listens at: "postgres 5432/TCP". */
export function portsText(s: NativeService): string {
  return (s.status?.ports ?? []).map((p) => `${p.name} ${p.port}/${p.protocol}`).join(', ')
}

/** ownerText says what an interface is attached to. */
export function ownerText(n: Nic): string {
  const a = n.status?.attachedTo
  if (!a) {
    return 'nothing'
  }
  return [a.kind === 'VirtualMachine' ? 'VM' : 'a service', a.cloudName || a.cloudId || ''].filter(Boolean).join(' ')
}

/** searchText is what the lists look into: what says which one it is, and its tags. */
export function searchText(s: Subject): string {
  return [findText(s), ...Object.entries(s.o.status?.tags ?? {}).map(([k, x]) => `${k}=${x}`)].join(' ').toLowerCase()
}

/** findText is what the search looks into: what says which one it is. */
export function findText({ kind, o }: Subject): string {
  const s = o.status
  const more = kind === SERVICES ? [(o as NativeService).status?.kind, (o as NativeService).status?.dnsName, portsText(o as NativeService)] : kind === NICS ? [(o as Nic).status?.description, ownerText(o as Nic)] : [(o as VM).status?.state]
  return [o.metadata.namespace + '/' + o.metadata.name, s?.cloudName, s?.cloudId, s?.addresses, s?.region, s?.cloudVpcId, s?.cloudVpcName, s?.mode, ...more].join(' ').toLowerCase()
}

/** Form is what something looks like on the map and beside its name, beside its word. */
export type Form = 'machine' | 'database' | 'balancer' | 'endpoint' | 'files' | 'code' | 'nic' | 'pod' | 'node' | 'addresses'

const forms: Record<string, Form> = {
  RDSInstance: 'database',
  RDSCluster: 'database',
  ElastiCacheCluster: 'database',
  ElastiCacheReplicationGroup: 'database',
  ApplicationLoadBalancer: 'balancer',
  NetworkLoadBalancer: 'balancer',
  GatewayLoadBalancer: 'balancer',
  LoadBalancer: 'balancer',
  ApplicationGateway: 'balancer',
  VPCEndpoint: 'endpoint',
  PrivateEndpoint: 'endpoint',
  ServiceTag: 'addresses',
  EFSFileSystem: 'files',
  LambdaFunction: 'code',
}

/** formOf is the form of a kind of node, and of services by their own kind. */
export function formOf(node: string, service = ''): Form {
  switch (node) {
    case 'CloudNativeService':
      return forms[service] ?? 'endpoint'
    case 'NetworkInterface':
      return 'nic'
    case 'Pod':
      return 'pod'
    case 'Node':
      return 'node'
    case 'Addresses':
      return 'addresses'
  }
  return 'machine'
}
