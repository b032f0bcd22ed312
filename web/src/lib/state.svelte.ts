import { session as ask, call, keep, may, type Login, type Session } from './api'
import { world } from './world.svelte'

/** Who uses the page, and what it shows besides objects. */
class App {
  session = $state.raw<Session | undefined>()
  login = $state.raw<Login | undefined>()
  error = $state('')
  /** The time, in milliseconds, renewed every few seconds for ages that are shown. */
  now = $state(Date.now())
  /** Manifests that are being written, for the map to show. */
  draft = $state('')
  draftName = $state('')

  private again: ReturnType<typeof setTimeout> | undefined

  /** begin asks for a session, and again every few seconds while nobody answers. */
  async begin(): Promise<void> {
    clearTimeout(this.again)
    try {
      const answer = await ask()
      this.error = ''
      if ('login' in answer) {
        this.login = answer.login
        this.session = undefined
        world.stop()
        return
      }
      this.login = undefined
      this.session = answer.session
      world.start(() => void this.check())
    } catch (e) {
      this.error = (e as Error).message
      clearTimeout(this.again)
      this.again = setTimeout(() => void this.begin(), 3000)
    }
  }

  /** check looks whether there is still a session, when the stream has broken. */
  async check(): Promise<void> {
    try {
      const answer = await ask()
      if ('login' in answer) {
        this.login = answer.login
        this.session = undefined
        world.stop()
      } else {
        this.session = answer.session
      }
    } catch {
      // The stream says that it is not live; it tries again by itself.
    }
  }

  async enter(token: string): Promise<void> {
    keep((await call<{ csrf: string }>('/api/login', { method: 'POST', body: { token } })).csrf)
    await this.begin()
  }

  async leave(): Promise<void> {
    await call('/api/logout', { method: 'POST' }).catch(() => undefined)
    location.assign('/')
  }
}

export const app = new App()
setInterval(() => (app.now = Date.now()), 5000)

/** May is the answer to a question of rights, for templates: false until it is known. */
export class May {
  yes = $state(false)
  known = $state(false)

  constructor(verb: string, group: string, resource: string, namespace?: string, name?: string) {
    void may(verb, group, resource, namespace, name).then((yes) => {
      this.yes = yes
      this.known = true
    })
  }
}
