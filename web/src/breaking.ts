import type { Member, Room } from '@rollcall/client'
import { newUser } from './guest.ts'
import { Robin } from './robin.ts'

interface Experiment {
  readonly name: string
  readonly does: string
  readonly promise: string
  /** What others are to see: a leave within so long, or neither leave nor join for so long. */
  readonly expects: 'leave' | 'nothing'
  readonly withinMs: number
  run(robin: Robin, again: () => Robin): void
}

const experiments: readonly Experiment[] = [
  {
    name: 'unplug',
    does: 'Robin’s cable was pulled for 10 s',
    promise: 'A lost link is no leave',
    expects: 'nothing',
    withinMs: 14_000,
    run: (robin) => {
      robin.unplug()
      setTimeout(() => robin.plug(), 10_000)
    },
  },
  {
    name: 'freeze',
    does: 'Robin’s script stands still for 20 s',
    promise: 'A busy script is no leave: the browser itself answers for the tab',
    expects: 'nothing',
    withinMs: 23_000,
    run: (robin) => {
      robin.freeze()
      setTimeout(() => robin.thaw(), 20_000)
    },
  },
  {
    name: 'reload',
    does: 'Robin reloads the page',
    promise: 'A reload is no leave',
    expects: 'nothing',
    withinMs: 5_000,
    run: (robin, again) => {
      robin.closeTab()
      setTimeout(again, 300)
    },
  },
  {
    name: 'leave',
    does: 'Robin leaves',
    promise: 'Who says goodbye is gone at once',
    expects: 'leave',
    withinMs: 2_000,
    run: (robin) => robin.leave(),
  },
  {
    name: 'close',
    does: 'Robin closes the tab',
    promise: 'A closed tab is gone in about a second',
    expects: 'leave',
    withinMs: 3_000,
    run: (robin) => robin.closeTab(),
  },
  {
    name: 'kill',
    does: 'Robin’s browser crashed, without a word',
    promise: 'Nobody is a ghost: gone 31 s after the last sign of life, at the latest',
    expects: 'leave',
    withinMs: 32_000,
    run: (robin) => robin.kill(),
  },
]

/**
 * A guest to break, and what everybody else sees of it: each experiment has a promise, and the room's
 * own events say whether it held.
 */
export class Breaking {
  readonly #section: HTMLElement
  readonly #log: HTMLOListElement
  readonly #verdict: HTMLElement
  readonly #user = `robin-${newUser().slice(-5)}`
  #room: Room | null = null
  #robin: Robin | null = null
  /** Whether the others see Robin: what they see is all that counts. */
  #seen = false
  #large = false
  #running: {
    readonly experiment: Experiment
    readonly started: number
    readonly timer: ReturnType<typeof setInterval>
  } | null = null
  #began = 0

  constructor(section: HTMLElement) {
    this.#section = section
    this.#log = section.querySelector('.log') as HTMLOListElement
    this.#verdict = section.querySelector('.verdict') as HTMLElement
    section.addEventListener('click', ({ target }) => {
      const name = (target as HTMLElement).closest<HTMLElement>('[data-break]')?.dataset.break
      if (name !== undefined) this.#click(name)
    })
    addEventListener('pagehide', () => this.#robin?.closeTab())
    this.#buttons()
  }

  show(room: Room): () => void {
    this.#room = room
    this.#buttons()
    const ours = ({ user }: Member) => user === this.#user
    const stops = [
      // In a crowd nobody is named, so nothing would be seen.
      room.mode.subscribe((mode) => {
        this.#large = mode === 'counts'
        this.#section.toggleAttribute('data-large', this.#large)
        if (this.#large) this.#send()
        this.#buttons()
      }),
      room.on('join', ({ member }) => {
        if (ours(member)) this.#happened(true, 'Robin joined')
      }),
      room.on('leave', ({ member, reason }) => {
        if (ours(member)) this.#happened(false, `Robin left (${reason})`)
      }),
      room.on('update', ({ member }) => {
        if (ours(member)) this.#note(`Robin is ${member.status}${tabs(member)}`)
      }),
    ]
    return () => {
      for (const stop of stops) stop()
      this.#send()
      this.#room = null
      this.#buttons()
    }
  }

  /** Away with Robin. */
  #send(): void {
    this.#robin?.leave()
    this.#robin = null
    this.#seen = false
    this.#stop()
    this.#clear()
  }

  #clear(): void {
    this.#log.replaceChildren()
    this.#verdict.replaceChildren()
    delete this.#verdict.dataset.state
  }

  #click(name: string): void {
    const room = this.#room
    if (room === null) return
    if (name === 'come') {
      this.#began = performance.now()
      this.#clear()
      this.#robin = new Robin(room.id, this.#user, 'Robin')
    } else if (name === 'hide') {
      this.#robin?.hide(!this.#robin.hidden)
      this.#note(this.#robin?.hidden ? 'You hid Robin’s tab' : 'You showed Robin’s tab', true)
    } else {
      const experiment = experiments.find((one) => one.name === name)
      if (experiment !== undefined && this.#robin !== null) this.#start(experiment, this.#robin, room)
    }
    this.#buttons()
  }

  #start(experiment: Experiment, robin: Robin, room: Room): void {
    const started = performance.now()
    this.#note(experiment.does, true)
    const timer = setInterval(() => this.#tick(), 250)
    this.#running = { experiment, started, timer }
    this.#say('watching', experiment.promise, 'Watching what others see')
    experiment.run(robin, () => {
      this.#robin = new Robin(room.id, this.#user, 'Robin')
      return this.#robin
    })
  }

  #tick(): void {
    if (this.#running === null) return
    const { experiment, started } = this.#running
    const tookMs = performance.now() - started
    if (tookMs > experiment.withinMs) {
      if (experiment.expects === 'nothing')
        this.#end('held', `Nobody saw Robin go: watched for ${seconds(tookMs)}`)
      else this.#end('broken', `Robin is still shown after ${seconds(tookMs)}`)
    } else
      this.#say('watching', experiment.promise, `Watching what others see: ${Math.floor(tookMs / 1000)} s`)
  }

  #happened(here: boolean, text: string): void {
    this.#seen = here
    this.#note(text)
    if (this.#running !== null) {
      const { experiment, started } = this.#running
      const took = seconds(performance.now() - started)
      if (experiment.expects === 'nothing') this.#end('broken', `${text}, ${took} later`)
      else if (!here) this.#end('held', `${text}, ${took} later`)
    }
    if (!here && this.#running === null) this.#robin = null
    this.#buttons()
  }

  #end(result: 'held' | 'broken', text: string): void {
    if (this.#running === null) return
    this.#say(result, this.#running.experiment.promise, text)
    this.#stop()
    if (!this.#seen) this.#robin = null
    this.#buttons()
  }

  #stop(): void {
    if (this.#running !== null) clearInterval(this.#running.timer)
    this.#running = null
  }

  #say(state: 'watching' | 'held' | 'broken', promise: string, text: string): void {
    const verdict = this.#verdict
    if (verdict.dataset.state !== state) {
      verdict.dataset.state = state
      verdict.replaceChildren(document.createElement('strong'), document.createElement('span'))
    }
    const [head, line] = [...verdict.children]
    if (head && head.textContent !== promise) head.textContent = promise
    const words = state === 'held' ? `Held. ${text}.` : state === 'broken' ? `Broken. ${text}.` : text
    if (line && line.textContent !== words) line.textContent = words
  }

  /** A line of the time line: what was done to Robin, or what was seen of it. */
  #note(text: string, done = false): void {
    const item = document.createElement('li')
    const time = document.createElement('time')
    time.textContent = seconds(performance.now() - this.#began)
    item.toggleAttribute('data-done', done)
    item.append(time, text)
    this.#log.append(item)
    while (this.#log.childElementCount > 40) this.#log.firstElementChild?.remove()
    this.#log.scrollTop = this.#log.scrollHeight
  }

  #buttons(): void {
    for (const button of this.#section.querySelectorAll<HTMLButtonElement>('[data-break]')) {
      const come = button.dataset.break === 'come'
      button.disabled = come
        ? this.#robin !== null || this.#room === null || this.#large
        : !this.#seen || this.#running !== null
      if (come) {
        const known = this.#seen ? 'Robin is here' : 'Robin is coming'
        button.textContent = this.#robin === null ? 'Bring Robin in' : known
      }
      if (button.dataset.break === 'hide')
        button.setAttribute('aria-pressed', String(this.#robin?.hidden === true))
    }
  }
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`
}

function tabs({ connections }: Member): string {
  return connections > 1 ? `, ${connections} connections` : ''
}
