import { isMap, isSeq, parseDocument, stringify, type Document } from 'yaml'
import { STAGE, type Peer, type Policy, type Rule } from './k8s'
import { Wrong, parseSelector, parseTraffic, selectorText, trafficText } from './text'

// A policy as a form and as YAML, and the way from one to the other. The YAML is the truth: the
// form changes only what it knows, so comments and fields that it does not know stay.

/** Who, in the words of the form. `raw` is what the form cannot say and leaves alone. */
export type Who =
  | { type: 'vms'; labels: string; namespaces?: string }
  | { type: 'pods'; labels: string; namespaces?: string }
  | { type: 'nodes'; labels: string; namespaces?: string }
  | { type: 'group'; name: string }
  | { type: 'cidr'; cidr: string; except: string }
  | { type: 'fqdn'; name: string }
  | { type: 'raw'; raw: Peer }

export interface FormRule {
  name: string
  direction: 'in' | 'out'
  action: string
  peers: Who[]
  traffic: string
  /** Whom the rule applies to, if rules say it and not the policy. */
  appliedTo: Who[]
  /** Fields of the rule that the form does not know. */
  rest: Record<string, unknown>
  /** Ports and protocols that the form cannot write. */
  odd: boolean
  original: Pick<Rule, 'ports' | 'protocols'>
}

export interface Form {
  cluster: boolean
  name: string
  namespace: string
  tier: string
  priority: string
  staged: boolean
  appliedTo: Who[]
  rules: FormRule[]
}

const KNOWN = new Set(['name', 'action', 'from', 'to', 'ports', 'protocols', 'appliedTo'])

export function who(p: Peer): Who {
  const keys = Object.keys(p)
  const only = (...names: string[]) => keys.every((k) => names.includes(k))
  const namespaces = p.namespaceSelector ? selectorText(p.namespaceSelector) || '*' : undefined
  if (p.externalEntitySelector && only('externalEntitySelector', 'namespaceSelector')) {
    return { type: 'vms', labels: selectorText(p.externalEntitySelector), namespaces }
  }
  if (p.podSelector && only('podSelector', 'namespaceSelector')) {
    return { type: 'pods', labels: selectorText(p.podSelector), namespaces }
  }
  if (p.namespaceSelector && only('namespaceSelector')) {
    return { type: 'raw', raw: p }
  }
  if (p.nodeSelector && only('nodeSelector')) {
    return { type: 'nodes', labels: selectorText(p.nodeSelector) }
  }
  if (p.group && only('group')) {
    return { type: 'group', name: p.group }
  }
  if (p.ipBlock && only('ipBlock')) {
    return { type: 'cidr', cidr: p.ipBlock.cidr, except: (p.ipBlock.except ?? []).join(', ') }
  }
  if (p.fqdn && only('fqdn')) {
    return { type: 'fqdn', name: p.fqdn }
  }
  return { type: 'raw', raw: p }
}

export function peer(w: Who): Peer {
  switch (w.type) {
    case 'raw':
      return w.raw
    case 'group':
      if (!w.name) {
        throw new Wrong('a group needs a name')
      }
      return { group: w.name }
    case 'fqdn':
      return { fqdn: w.name }
    case 'cidr': {
      if (!/^[0-9a-f.:]+\/\d+$/i.test(w.cidr.trim())) {
        throw new Wrong(`"${w.cidr}" is no range of addresses, such as 10.0.0.0/8`)
      }
      const except = w.except.split(',').map((e) => e.trim()).filter(Boolean)
      return { ipBlock: except.length ? { cidr: w.cidr.trim(), except } : { cidr: w.cidr.trim() } }
    }
    case 'nodes':
      return { nodeSelector: parseSelector(w.labels) }
    default: {
      const p: Peer = w.type === 'vms' ? { externalEntitySelector: parseSelector(w.labels) } : { podSelector: parseSelector(w.labels) }
      if (w.namespaces) {
        p.namespaceSelector = w.namespaces === '*' ? {} : parseSelector(w.namespaces)
      }
      return p
    }
  }
}

/** formOf reads a policy into the form. */
export function formOf(p: Policy): Form {
  const rule = (r: Rule, direction: 'in' | 'out'): FormRule => {
    const original = { ports: r.ports, protocols: r.protocols }
    const traffic = trafficText(r)
    let odd = false
    try {
      // Only "is it the same again" tells that the form can say it.
      odd = trafficText(parseTraffic(traffic)) !== traffic || (r.protocols ?? []).some((x) => !x.icmp)
    } catch {
      odd = true
    }
    return {
      name: r.name ?? '',
      direction,
      action: r.action,
      peers: ((direction === 'in' ? r.from : r.to) ?? []).map(who),
      traffic,
      appliedTo: (r.appliedTo ?? []).map(who),
      rest: Object.fromEntries(Object.entries(r).filter(([k]) => !KNOWN.has(k))),
      odd,
      original,
    }
  }
  return {
    cluster: p.kind === 'ClusterNetworkPolicy',
    name: p.metadata?.name ?? '',
    namespace: p.metadata?.namespace ?? '',
    tier: p.spec?.tier ?? '',
    priority: p.spec?.priority === undefined ? '' : String(p.spec.priority),
    staged: p.metadata?.annotations?.[STAGE] === 'plan',
    appliedTo: (p.spec?.appliedTo ?? []).map(who),
    rules: [...(p.spec?.ingress ?? []).map((r) => rule(r, 'in')), ...(p.spec?.egress ?? []).map((r) => rule(r, 'out'))],
  }
}

/** policyOf makes a policy of the form. It throws Wrong for what cannot be meant. */
export function policyOf(f: Form, base?: Policy): Policy {
  const rule = (r: FormRule, i: number): Rule => {
    try {
      const out: Rule = { ...(r.name ? { name: r.name } : {}), action: r.action }
      const peers = r.peers.map(peer)
      if (peers.length) {
        out[r.direction === 'in' ? 'from' : 'to'] = peers
      }
      const t = r.odd ? r.original : parseTraffic(r.traffic)
      if (t.ports?.length) {
        out.ports = t.ports
      }
      if (t.protocols?.length) {
        out.protocols = t.protocols
      }
      if (r.appliedTo.length) {
        out.appliedTo = r.appliedTo.map(peer)
      }
      return { ...out, ...r.rest }
    } catch (e) {
      throw new Wrong(`rule ${r.name || i + 1}: ${(e as Error).message}`)
    }
  }
  const annotations = { ...base?.metadata?.annotations }
  if (f.staged) {
    annotations[STAGE] = 'plan'
  } else {
    delete annotations[STAGE]
  }
  const priority = Number(f.priority)
  if (f.priority.trim() === '' || Number.isNaN(priority)) {
    throw new Wrong('the priority must be a number')
  }
  const metadata: Policy['metadata'] = { ...base?.metadata, name: f.name }
  delete metadata.namespace
  delete metadata.annotations
  if (!f.cluster) {
    metadata.namespace = f.namespace
  }
  if (Object.keys(annotations).length) {
    metadata.annotations = annotations
  }
  const spec: Policy['spec'] = { ...base?.spec, priority }
  delete spec.tier
  delete spec.appliedTo
  delete spec.ingress
  delete spec.egress
  if (f.tier) {
    spec.tier = f.tier
  }
  if (f.appliedTo.length) {
    spec.appliedTo = f.appliedTo.map(peer)
  }
  const of = (d: 'in' | 'out') => f.rules.filter((r) => r.direction === d).map(rule)
  if (of('in').length) {
    spec.ingress = of('in')
  }
  if (of('out').length) {
    spec.egress = of('out')
  }
  return {
    apiVersion: base?.apiVersion ?? 'crd.antrea.io/v1beta1',
    kind: f.cluster ? 'ClusterNetworkPolicy' : 'NetworkPolicy',
    metadata,
    spec,
  }
}

/** manifest is a policy as one would keep it: without what the server adds. */
export function manifest(p: Policy): Policy {
  const { name, namespace, labels, annotations } = p.metadata
  const kept = Object.fromEntries(Object.entries(annotations ?? {}).filter(([k]) => k !== 'kubectl.kubernetes.io/last-applied-configuration'))
  return {
    apiVersion: p.apiVersion ?? 'crd.antrea.io/v1beta1',
    kind: p.kind ?? (namespace ? 'NetworkPolicy' : 'ClusterNetworkPolicy'),
    metadata: {
      name,
      ...(namespace ? { namespace } : {}),
      ...(labels && Object.keys(labels).length ? { labels } : {}),
      ...(Object.keys(kept).length ? { annotations: kept } : {}),
    },
    spec: p.spec,
  }
}

export function toYaml(o: unknown): string {
  return stringify(o, { lineWidth: 0, indentSeq: false })
}

/** fromYaml reads one policy; it throws Wrong, with the line, for a text that is none. */
export function fromYaml(text: string): Policy {
  const doc = parseDocument(text, { uniqueKeys: true })
  const error = doc.errors[0]
  if (error) {
    throw new Wrong(error.message.split('\n')[0]!.replace(/:$/, ''))
  }
  const o = doc.toJS({ maxAliasCount: 50 }) as Policy | null
  if (typeof o !== 'object' || o === null || Array.isArray(o)) {
    throw new Wrong('this is no object')
  }
  if (o.kind !== 'NetworkPolicy' && o.kind !== 'ClusterNetworkPolicy') {
    throw new Wrong('the kind must be NetworkPolicy or ClusterNetworkPolicy')
  }
  if (!String(o.apiVersion ?? '').startsWith('crd.antrea.io/')) {
    throw new Wrong('the apiVersion must be crd.antrea.io/v1beta1')
  }
  const list = (v: unknown) => v === undefined || v === null || (Array.isArray(v) && v.every((e) => typeof e === 'object' && e !== null))
  if (typeof o.metadata !== 'object' || o.metadata === null || typeof o.spec !== 'object' || o.spec === null) {
    throw new Wrong('metadata and spec are needed')
  }
  if (!list(o.spec.ingress) || !list(o.spec.egress) || !list(o.spec.appliedTo)) {
    throw new Wrong('ingress, egress and appliedTo are lists of objects')
  }
  for (const r of [...(o.spec.ingress ?? []), ...(o.spec.egress ?? [])]) {
    if (![r.from, r.to, r.ports, r.protocols, r.appliedTo].every(list)) {
      throw new Wrong('from, to, ports, protocols and appliedTo of a rule are lists of objects')
    }
  }
  return o
}

function same(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b)
}

function merge(doc: Document, path: (string | number)[], want: unknown): void {
  const node = path.length ? doc.getIn(path, true) : doc.contents
  if (typeof want === 'object' && want !== null && !Array.isArray(want) && isMap(node)) {
    const have = node.toJS(doc) as Record<string, unknown>
    for (const k of Object.keys(have)) {
      if (!(k in want)) {
        doc.deleteIn([...path, k])
      }
    }
    for (const [k, v] of Object.entries(want)) {
      if (v !== undefined && !same(have[k], v)) {
        merge(doc, [...path, k], v)
      }
    }
    return
  }
  if (Array.isArray(want) && isSeq(node) && want.length) {
    const have = node.toJS(doc) as unknown[]
    // An entry that goes takes its comment with it, and no other.
    if (have.length === want.length + 1) {
      const at = want.findIndex((w, i) => !same(w, have[i]))
      const gone = at < 0 ? want.length : at
      if (want.slice(gone).every((w, i) => same(w, have[gone + 1 + i]))) {
        doc.deleteIn([...path, gone])
        return
      }
    }
    for (let i = have.length - 1; i >= want.length; i--) {
      doc.deleteIn([...path, i])
    }
    want.forEach((w, i) => {
      if (i >= have.length) {
        doc.addIn(path, doc.createNode(w))
      } else if (!same(w, have[i])) {
        merge(doc, [...path, i], w)
      }
    })
    return
  }
  if (path.length) {
    doc.setIn(path, doc.createNode(want))
  } else {
    doc.contents = doc.createNode(want) as typeof doc.contents
  }
}

/** rewrite changes a YAML text so that it says `want`, and keeps the comments of the rest. */
export function rewrite(text: string, want: Policy): string {
  const doc = parseDocument(text)
  if (doc.errors.length || !isMap(doc.contents)) {
    return toYaml(want)
  }
  merge(doc, [], want)
  return doc.toString({ lineWidth: 0, indentSeq: false })
}

/** blank is where a new policy begins. */
export function blank(namespace: string): string {
  return toYaml({
    apiVersion: 'crd.antrea.io/v1beta1',
    kind: namespace ? 'NetworkPolicy' : 'ClusterNetworkPolicy',
    metadata: { name: 'new-policy', ...(namespace ? { namespace } : {}) },
    spec: { tier: 'application', priority: 10, appliedTo: [{ externalEntitySelector: {} }], ingress: [] },
  })
}

/** A line of a comparison. */
export interface DiffLine {
  mark: ' ' | '+' | '-'
  text: string
}

/** diff compares two texts line by line (longest common subsequence; both are policies, so short). */
export function diff(before: string, after: string): DiffLine[] {
  const a = before.split('\n')
  const b = after.split('\n')
  if (a.length * b.length > 4_000_000) {
    return [...a.map((text) => ({ mark: '-' as const, text })), ...b.map((text) => ({ mark: '+' as const, text }))]
  }
  const w = b.length + 1
  const table = new Uint32Array((a.length + 1) * w)
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      table[i * w + j] = a[i] === b[j] ? table[(i + 1) * w + j + 1]! + 1 : Math.max(table[(i + 1) * w + j]!, table[i * w + j + 1]!)
    }
  }
  const out: DiffLine[] = []
  let i = 0
  let j = 0
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      out.push({ mark: ' ', text: a[i]! })
      i++
      j++
    } else if (j >= b.length || (i < a.length && table[(i + 1) * w + j]! >= table[i * w + j + 1]!)) {
      out.push({ mark: '-', text: a[i++]! })
    } else {
      out.push({ mark: '+', text: b[j++]! })
    }
  }
  return out
}
