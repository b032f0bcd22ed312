import type { Obj } from './k8s'

// Traceflows: what becomes of one packet, as the Nodes on its way report it.

export interface TraceEnd {
  namespace?: string
  pod?: string
  service?: string
  ip?: string
}

export interface Observation {
  component?: string
  componentInfo?: string
  action?: string
  networkPolicy?: string
  networkPolicyRule?: string
  pod?: string
  tunnelDstIP?: string
  translatedDstIP?: string
  translatedSrcIP?: string
}

export interface NodeResult {
  node?: string
  role?: string
  observations?: Observation[]
}

export interface Traceflow extends Obj {
  spec: {
    source?: TraceEnd
    destination?: TraceEnd
    packet?: { ipHeader?: { protocol?: number }; ipv6Header?: { nextHeader?: number }; transportHeader?: { tcp?: { dstPort?: number }; udp?: { dstPort?: number } } }
    liveTraffic?: boolean
    droppedOnly?: boolean
  }
  status?: { phase?: string; reason?: string; startTime?: string; traced?: { node?: string }; results?: NodeResult[] }
}

/** What the form asks for. Protocol is TCP, UDP or ICMP. */
export interface TraceForm {
  from: string
  to: string
  protocol: string
  port: string
  live: boolean
}

const ADDRESS = /^[0-9a-fA-F.:]*[.:][0-9a-fA-F.:]*$/
const NAME = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/

/** endText is an end as people write it; '' if any is meant. */
export function endText(e: TraceEnd | undefined): string {
  return e?.ip || (e?.pod ? `${e.namespace}/${e.pod}` : e?.service ? `svc/${e.namespace}/${e.service}` : '')
}

function parseEnd(text: string): TraceEnd | undefined {
  if (ADDRESS.test(text) && !text.includes('/')) {
    return { ip: text }
  }
  const parts = text.split('/')
  if (parts.every((p) => NAME.test(p))) {
    if (parts.length === 2) {
      return { namespace: parts[0], pod: parts[1] }
    }
    if (parts.length === 3 && parts[0] === 'svc') {
      return { namespace: parts[1], service: parts[2] }
    }
  }
  return undefined
}

/** traceSpec makes a Traceflow of the form, or says what is wrong with it. */
export function traceSpec(form: TraceForm): { spec?: Traceflow['spec']; wrong: string } {
  const source = parseEnd(form.from.trim())
  const destination = parseEnd(form.to.trim())
  const port = form.port === '' ? 0 : Number(form.port)
  if (!source || source.service || (source.ip && !form.live)) {
    return { wrong: form.live ? 'From: give NAMESPACE/POD or an address.' : 'From: give the Pod that sends, NAMESPACE/POD.' }
  }
  if (!destination) {
    return { wrong: 'To: give NAMESPACE/POD, svc/NAMESPACE/NAME or an address.' }
  }
  if (source.ip && !destination.pod) {
    return { wrong: 'One end has to be a Pod.' }
  }
  if (!Number.isInteger(port) || port < 0 || port > 65535) {
    return { wrong: 'Port: give a number up to 65535.' }
  }
  if (port === 0 && form.protocol !== 'ICMP' && !destination.service) {
    return { wrong: 'Port: a packet of TCP or UDP goes to one.' }
  }
  const six = [source.ip, destination.ip].some((ip) => ip?.includes(':'))
  const number = { TCP: 6, UDP: 17 }[form.protocol] ?? (six ? 58 : 1)
  const header = form.protocol === 'TCP' ? { tcp: { dstPort: port } } : form.protocol === 'UDP' ? { udp: { dstPort: port } } : { icmp: {} }
  const packet = six ? { ipv6Header: { nextHeader: number }, transportHeader: header } : { ipHeader: { protocol: number }, transportHeader: header }
  return { spec: { source, destination, packet, ...(form.live ? { liveTraffic: true } : {}) }, wrong: '' }
}

/** packetText is the packet in short: "TCP 443". */
export function packetText(t: Traceflow): string {
  const p = t.spec.packet
  const number = p?.ipHeader?.protocol ?? p?.ipv6Header?.nextHeader
  const name = { 6: 'TCP', 17: 'UDP' }[number ?? 1] ?? 'ICMP'
  const port = p?.transportHeader?.tcp?.dstPort ?? p?.transportHeader?.udp?.dstPort
  return name + (port ? ' ' + port : '') + (t.spec.liveTraffic ? ', live' : '')
}

/** observationText is what was done with the packet in one place, in the words of "nephele traceflow". */
export function observationText(o: Observation): string {
  const words = [
    o.component,
    o.componentInfo && `(${o.componentInfo})`,
    o.action,
    o.networkPolicy && `by ${o.networkPolicy}`,
    o.networkPolicyRule && `rule ${o.networkPolicyRule}`,
    o.pod && `to Pod ${o.pod}`,
    o.tunnelDstIP && `to Node ${o.tunnelDstIP}`,
    o.translatedDstIP && `destination is now ${o.translatedDstIP}`,
    o.translatedSrcIP && `source is now ${o.translatedSrcIP}`,
  ]
  return words.filter(Boolean).join(' ')
}

/** resultsOf are the reports of the Nodes in the order of the way: the sender first. */
export function resultsOf(t: Traceflow): NodeResult[] {
  const first = t.status?.traced?.node
  return (t.status?.results ?? []).toSorted((a, b) => Number(b.node === first) - Number(a.node === first))
}

/** outcome is what became of the packet: a word, and how good that is. */
export function outcome(t: Traceflow): { word: string; tone: string } {
  const actions = (t.status?.results ?? []).flatMap((r) => r.observations ?? []).map((o) => o.action)
  if (t.status?.phase === 'Failed') {
    return { word: 'Failed', tone: 'bad' }
  }
  const lost = actions.find((a) => a === 'Dropped' || a === 'Rejected')
  if (lost) {
    return { word: lost, tone: 'bad' }
  }
  if (actions.some((a) => a === 'Delivered' || a === 'ForwardedOutOfNetwork')) {
    return { word: 'Delivered', tone: 'good' }
  }
  return { word: t.status?.phase || 'Pending', tone: '' }
}
