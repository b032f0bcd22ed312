/** Where the page is: the path without its slash at the end, and the query. */
class Router {
  path = $state('/')
  query = $state.raw(new URLSearchParams())
  private guard: (() => boolean) | undefined

  start(): void {
    const read = () => {
      this.path = location.pathname.replace(/\/+$/, '') || '/'
      this.query = new URLSearchParams(location.search)
    }
    read()
    addEventListener('popstate', read)
    // A plain click on a link of our own changes the path; all other clicks are the browser's.
    document.addEventListener('click', (e) => {
      const a = (e.target as Element | null)?.closest?.('a')
      if (!a || e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) {
        return
      }
      if (a.target || a.hasAttribute('download') || a.origin !== location.origin || a.pathname.startsWith('/api/') || a.getAttribute('href')?.startsWith('#')) {
        return
      }
      e.preventDefault()
      this.go(a.pathname + a.search)
    })
  }

  /** go shows another place. */
  go(to: string, replace = false): void {
    const url = new URL(to, location.origin)
    if (!replace && this.guard && url.pathname !== location.pathname && !this.guard()) {
      return
    }
    history[replace ? 'replaceState' : 'pushState'](null, '', url.pathname + url.search)
    const other = url.pathname !== this.path
    this.path = url.pathname.replace(/\/+$/, '') || '/'
    this.query = url.searchParams
    if (other && !replace) {
      scrollTo(0, 0)
      document.getElementById('main')?.focus({ preventScroll: true })
    }
  }

  /** set changes parameters of the query in place; an empty one goes. */
  set(params: Record<string, string | undefined>, replace = true): void {
    const q = new URLSearchParams(this.query)
    for (const [k, v] of Object.entries(params)) {
      if (v) {
        q.set(k, v)
      } else {
        q.delete(k)
      }
    }
    const text = q.toString()
    this.go(this.path + (text ? '?' + text : ''), replace)
  }

  param(name: string): string {
    return this.query.get(name) ?? ''
  }

  /** The parts of the path. */
  get parts(): string[] {
    return this.path
      .split('/')
      .filter(Boolean)
      .map((p) => {
        try {
          return decodeURIComponent(p)
        } catch {
          return p
        }
      })
  }

  /** leaving sets who is asked before another screen is shown. */
  leaving(ask: (() => boolean) | undefined): void {
    this.guard = ask
  }
}

export const router = new Router()

/** link makes a path of parts, each of which may hold any text, and a query. */
export function link(parts: (string | undefined)[], query: Record<string, string | undefined> = {}): string {
  const q = new URLSearchParams()
  for (const [k, v] of Object.entries(query)) {
    if (v) {
      q.set(k, v)
    }
  }
  const text = q.toString()
  return '/' + parts.filter((p) => p !== undefined && p !== '').map((p) => encodeURIComponent(p!)).join('/') + (text ? '?' + text : '')
}
