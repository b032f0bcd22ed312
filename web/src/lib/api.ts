// Calls of the console's server. Each carries the proof that it comes from this page; errors are the
// API server's own words.

export interface Session {
  user: { username: string; groups?: string[] }
  mode: 'local' | 'cluster'
  edit: boolean
  version: string
  cluster: string
  demo: boolean
}

export interface Login {
  oidc: boolean
  token: boolean
}

/** The cause of a Status of Kubernetes: which field is wrong, and how. */
export interface Cause {
  field?: string
  message?: string
  reason?: string
}

export class ApiError extends Error {
  constructor(
    readonly code: number,
    readonly reason: string,
    message: string,
    readonly causes: Cause[] = [],
  ) {
    super(message)
  }
}

const kept = 'nephele.session'

/** keep notes the proof that calls carry. All tabs of this origin, which is one port, share it. */
export function keep(proof: string): void {
  localStorage.setItem(kept, proof)
}

/** proof is what shows that a call comes from this page. */
export function proof(): string {
  return localStorage.getItem(kept) ?? ''
}

/** arrive takes the proof that a login has left in the address, and takes it out of there. */
export function arrive(): void {
  const found = /^#session=([\w-]+)$/.exec(location.hash)
  if (found) {
    keep(found[1]!)
    history.replaceState(history.state, '', location.pathname + location.search)
  }
}

const plain: Record<number, string> = {
  401: 'The session has ended.',
  403: 'You may not do that.',
  404: 'There is no such object.',
  409: 'Somebody has changed it meanwhile.',
  413: 'That is too large.',
  429: 'Too many questions at once. Try again in a moment.',
  502: 'The API server does not answer.',
  503: 'The API server does not answer.',
  504: 'The API server did not answer in time.',
}

async function failure(r: Response): Promise<ApiError> {
  let message = plain[r.status] ?? `The server answered ${r.status}.`
  let reason = ''
  let causes: Cause[] = []
  try {
    const status = (await r.json()) as { message?: string; reason?: string; details?: { causes?: Cause[] } }
    if (typeof status.message === 'string' && status.message) {
      message = status.message
    }
    reason = status.reason ?? ''
    causes = status.details?.causes ?? []
  } catch {
    // No Status: the words above have to do.
  }
  return new ApiError(r.status, reason, message, causes)
}

/** warnings reads the header in which an API server warns: 299 - "text", several after commas. */
export function warnings(header: string): string[] {
  return [...header.matchAll(/\b299 \S+ "((?:[^"\\]|\\.)*)"/g)].map((m) => m[1]!.replace(/\\(.)/g, '$1'))
}

export async function call<T>(path: string, options: { method?: string; body?: unknown; type?: string; signal?: AbortSignal; warned?: (warnings: string[]) => void } = {}): Promise<T> {
  const headers: Record<string, string> = { Accept: 'application/json', 'X-Nephele-Csrf': proof() }
  const method = options.method ?? 'GET'
  let body: string | undefined
  if (options.body !== undefined) {
    headers['Content-Type'] = options.type ?? 'application/json'
    body = typeof options.body === 'string' ? options.body : JSON.stringify(options.body)
  }
  let r: Response
  try {
    r = await fetch(path, { method, headers, body, signal: options.signal, credentials: 'same-origin', redirect: 'error' })
  } catch (e) {
    if ((e as Error).name === 'AbortError') {
      throw e
    }
    throw new ApiError(0, 'Unreachable', 'The console does not answer. Is it still running?')
  }
  if (!r.ok) {
    throw await failure(r)
  }
  options.warned?.(warnings(r.headers.get('Warning') ?? ''))
  if (r.status === 204) {
    return undefined as T
  }
  const text = await r.text()
  return (text ? JSON.parse(text) : undefined) as T
}

/** k8s calls the Kubernetes API through the console. */
export function k8s<T>(path: string, options: Parameters<typeof call>[1] = {}): Promise<T> {
  return call<T>('/api/k8s' + path, options)
}

/** session asks who we are; without a session it returns how to begin one. */
export async function session(): Promise<{ session: Session } | { login: Login }> {
  const r = await fetch('/api/session', { headers: { Accept: 'application/json', 'X-Nephele-Csrf': proof() }, credentials: 'same-origin' }).catch(() => undefined)
  if (!r) {
    throw new ApiError(0, 'Unreachable', 'The console does not answer. Is it still running?')
  }
  if (r.status === 401) {
    const body = (await r.json().catch(() => ({}))) as { login?: Login }
    return { login: body.login ?? { oidc: false, token: false } }
  }
  if (!r.ok) {
    throw await failure(r)
  }
  return { session: (await r.json()) as Session }
}

export const CRD = '/apis/crd.antrea.io/v1beta1'
export const CLOUD = '/apis/crd.cloud.antrea.io/v1alpha1'
const ANALYSIS = '/apis/analysis.nephele.io/v1alpha1'

/** review asks a question of analysis.nephele.io and returns the answer. */
export async function review<T>(kind: string, spec: unknown, signal?: AbortSignal): Promise<T> {
  const plural: Record<string, string> = {
    FlowReview: 'flowreviews',
    ReachReview: 'reachreviews',
    EffectiveRules: 'effectiverules',
    PlanReview: 'planreviews',
    FlowQuery: 'flowqueries',
  }
  const answer = await k8s<{ status: T }>(`${ANALYSIS}/${plural[kind]}`, {
    method: 'POST',
    body: { apiVersion: 'analysis.nephele.io/v1alpha1', kind, metadata: {}, spec },
    signal,
  })
  return answer.status
}

const allowed = new Map<string, Promise<boolean>>()

/** may asks the API server whether the caller may do that. What cannot be found out is a no. */
export function may(verb: string, group: string, resource: string, namespace?: string, name?: string): Promise<boolean> {
  const id = [verb, group, resource, namespace ?? '', name ?? ''].join('|')
  let answer = allowed.get(id)
  if (!answer) {
    answer = k8s<{ status?: { allowed?: boolean } }>('/apis/authorization.k8s.io/v1/selfsubjectaccessreviews', {
      method: 'POST',
      body: {
        apiVersion: 'authorization.k8s.io/v1',
        kind: 'SelfSubjectAccessReview',
        spec: { resourceAttributes: { verb, group, resource, namespace, name } },
      },
    }).then(
      (r) => r.status?.allowed === true,
      () => {
        allowed.delete(id)
        return false
      },
    )
    allowed.set(id, answer)
  }
  return answer
}
