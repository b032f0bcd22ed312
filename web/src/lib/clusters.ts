import { phaseOf } from './derive'
import { condition, isTrue, ref, type ClusterRealization, type Policy, type SetCluster } from './k8s'

// The set of clusters, in its hub: what screens show of it, worked out without any state.

/** clusterState is how a member stands, in the word of `nephele cluster list`. */
export function clusterState(c: SetCluster): string {
  const connected = condition(c, 'Connected')
  if (!connected) return 'Unknown'
  if (connected.status !== 'True') return connected.reason || 'Unknown'
  return isTrue(c, 'InSync') ? 'InSync' : 'Syncing'
}

/** stateTone says whether a state is good, bad or neither. */
export function stateTone(state: string): string {
  return state === 'InSync' ? 'good' : state === 'Syncing' ? '' : 'bad'
}

/** troubles is what needs attention at a member. */
export function troubles(c: SetCluster): string[] {
  const out: string[] = []
  const connected = condition(c, 'Connected')
  if (connected && connected.status !== 'True' && connected.message) out.push(connected.message)
  for (const type of ['ClaimsRefused', 'AccountTaken']) {
    const found = condition(c, type)
    if (found?.status === 'True' && found.message) out.push(found.message)
  }
  const a = c.spec?.addresses
  if (!a?.pods?.length && !a?.nodes?.length && !a?.machines?.length) out.push('spec.addresses names no address: nothing that it has is believed.')
  return out
}

/** A policy for clusters of the set, with how far it is in each. */
export interface SetRow {
  policy: Policy
  name: string
  /** Empty for a kind that has no page. */
  path: string
  cells: (ClusterRealization | undefined)[]
}

/** setRows are the policies that any member has or is to have, and how far each is there, in the order of the members. Of those of Kubernetes the members say it. */
export function setRows(acnp: Policy[], annp: Policy[], members: SetCluster[]): SetRow[] {
  const rows: SetRow[] = []
  const clusters = members.map((c) => c.metadata.name)
  const plain = new Map<string, SetRow>()
  members.forEach((c, i) => {
    for (const p of c.status?.kubernetesPolicies ?? []) {
      const key = p.namespace + '/' + p.name
      const row = plain.get(key) ?? { policy: { metadata: { namespace: p.namespace, name: p.name }, spec: { priority: 0 } }, name: key + ' (Kubernetes)', path: '', cells: clusters.map(() => undefined) }
      row.cells[i] = { ...p, name: c.metadata.name }
      plain.set(key, row)
    }
  })
  rows.push(...plain.values())
  for (const p of [...acnp, ...annp]) {
    if (!p.status?.clusters?.length) continue
    const ns = p.metadata.namespace
    rows.push({
      policy: p,
      name: ref(p),
      path: ns ? `/policies/annp/${encodeURIComponent(ns)}/${encodeURIComponent(p.metadata.name)}` : `/policies/acnp/${encodeURIComponent(p.metadata.name)}`,
      cells: clusters.map((name) => p.status?.clusters?.find((c) => c.name === name)),
    })
  }
  return rows.sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** cellPhase is the phase in a member: Pending while it has not told of the present generation. */
export function cellPhase(p: Policy, c: ClusterRealization): string {
  return phaseOf({ ...p, status: { phase: c.phase || 'Unknown', observedGeneration: c.observedGeneration || undefined } })
}

/** cellText says how many of those who enforce there have realized it, and what is in the way. */
export function cellText(c: ClusterRealization): string {
  const parts: string[] = []
  if (c.desiredNodesRealized) parts.push(`${c.currentNodesRealized ?? 0} of ${c.desiredNodesRealized}`)
  if (c.reason) parts.push(c.reason)
  return parts.join(', ')
}

/** What one fills in to let a cluster join. */
export interface JoinForm {
  name: string
  pods: string
  nodes: string
  machines: string
  labels: string
  server: string
}

const NAME = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/
const CIDR = /^[0-9a-fA-F.:]+\/[0-9]{1,3}$/
const LABEL = /^([a-zA-Z0-9.-]{1,253}\/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?=([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$/
const SERVER = /^(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+):[0-9]{1,5}$/

const words = (text: string) => text.split(/[\s,]+/).filter(Boolean)

/** joinCommand is the command that lets a cluster join, to be run where one may administer the hub; or what is wrong with what was filled in. */
export function joinCommand(f: JoinForm): { command: string; wrong: string } {
  const wrong = (text: string) => ({ command: '', wrong: text })
  if (!NAME.test(f.name)) return wrong('Name: want lower-case letters, digits and -, such as east.')
  const flags: string[] = []
  for (const [flag, text] of [['pods', f.pods], ['nodes', f.nodes], ['machines', f.machines]] as const) {
    const all = words(text)
    const bad = all.find((w) => !CIDR.test(w))
    if (bad) return wrong(`Addresses of ${flag}: ${bad} is no CIDR, such as 10.1.0.0/16.`)
    if (all.length) flags.push(`--${flag} ${all.join(',')}`)
  }
  if (!flags.length) return wrong('Addresses: without any, nothing that the cluster has is believed.')
  for (const w of words(f.labels)) {
    if (!LABEL.test(w)) return wrong(`Labels: ${w} is no label, such as env=prod.`)
    flags.push(`--label ${w}`)
  }
  const servers = words(f.server)
  const bad = servers.find((w) => !SERVER.test(w))
  if (bad) return wrong(`Hub: ${bad} is no HOST:PORT.`)
  if (servers.length) flags.push(`--server ${servers.join(',')}`)
  return { command: `nephele cluster token ${f.name} ${flags.join(' ')}`, wrong: '' }
}

/** Where processes that are one hub tell which of them answer. */
export const HUB = '/api/v1/namespaces/kube-system/configmaps/nephele-hub'

/** hubState is how many processes of the hub answer, as `nephele status` says it, and whether that needs attention; undefined if nothing is told that can be read. */
export function hubState(told: string | undefined, now = Date.now()): { text: string; bad: boolean } | undefined {
  let processes: { name?: unknown; peer?: unknown; counts?: unknown; answers?: unknown }[]
  let at: number
  try {
    const read = JSON.parse(told ?? '') as { at?: string; processes?: typeof processes }
    processes = read.processes ?? []
    at = Date.parse(read.at ?? '')
  } catch {
    return undefined
  }
  if (!Array.isArray(processes) || !processes.length || processes.length > 20) return undefined
  const count = processes.filter((p) => p.counts).length
  const away = processes.filter((p) => !p.answers).map((p) => String(p.name || p.peer || '?'))
  const silent = !(now - at <= 3 * 60_000)
  let text = `${processes.filter((p) => p.counts && p.answers).length} of ${count} answer, and ${Math.floor(count / 2) + 1} are needed`
  if (away.length) text += `; away: ${away.join(', ')}`
  if (silent) text += '; nothing was told of them for minutes'
  return { text, bad: away.length > 0 || silent }
}
