import type { Presence } from './presence.ts'
import { change, type Gap, type Roster, type Step } from './roster.ts'
import type { SetChange } from './stream.ts'
import { Throttle } from './throttle.ts'
import { Timer } from './timer.ts'

const setEveryMs = 100
/** A room that was joined, or a snapshot that was asked for, answers well within this. */
const answerMs = 3_000
/** A replica is at most a second behind. */
const behindMs = 1_200
/** However wrong a server may be, it is not asked more often than this. */
const askEveryMs = 1_000

/**
 * What keeps a room once it was entered: it tells what changes of us, mends what we hold when something
 * was missed, and ends the settling. Part of the upkeep; until that is here, nothing is lost: what is
 * wanted is told with the next join, or when it comes.
 */
export class RoomUpkeep {
  /** A snapshot is on its way: the next one is right whatever its version. */
  asked = false
  readonly #presence: Presence
  readonly #tell: Throttle
  readonly #repair: Timer
  readonly #settle: Timer
  readonly #again: Timer
  #askedAt = Number.NEGATIVE_INFINITY

  constructor(presence: Presence) {
    const { environment } = presence
    this.#presence = presence
    this.#tell = new Throttle(environment, setEveryMs, () => this.#flush())
    this.#repair = new Timer(environment)
    this.#settle = new Timer(environment)
    this.#again = new Timer(environment)
    this.expect()
  }

  /** Tells the stream what changed: data, status. Without one nothing is lost: the next is told the whole. */
  tell(): void {
    if (this.#presence.current !== null) this.#tell.request()
  }

  /** The room was joined: unless the state of it comes, it is asked for. */
  expect(): void {
    const { fresh, told } = this.#presence
    if (told !== null && !fresh) this.#expect(answerMs)
  }

  /** Fetches the state anew, unless it comes by itself or is on its way already. */
  repair(gap: Gap): void {
    if (this.#presence.told === null || (this.asked && this.#repair.isSet)) return
    const wait = this.#askedAt + askEveryMs - this.#presence.environment.now()
    const ms = Math.max(wait, gap === 'behind' ? behindMs : 0)
    if (ms <= 0) this.#ask()
    else this.#expect(ms)
  }

  /** What is held is the truth. */
  done(): void {
    this.asked = false
    this.#repair.clear()
  }

  /** The server will not have us here: nothing comes by asking again. */
  giveUp(): void {
    this.#repair.clear()
  }

  /** Does what is due, also where timers are throttled. */
  check(): void {
    if (this.#news() !== null) this.tell()
    const { roster, fresh, environment } = this.#presence
    // While we are cut off, nobody can tell who came back: the next snapshot decides.
    if (roster.settledAt === null || !fresh) return
    const left = roster.settledAt - environment.now()
    if (left <= 0) this.#presence.take(settle(roster))
    else if (!this.#settle.isSet) this.#settle.set(left, () => this.#presence.commit())
  }

  poke(): void {
    this.#presence.commit()
  }

  down(): void {
    this.#tell.cancel()
    this.#repair.clear()
    this.#settle.clear()
    this.#again.clear()
  }

  clear(): void {
    this.down()
    this.asked = false
  }

  /** What the stream does not know of us, or null. */
  #news(): SetChange | null {
    const { connection, desired } = this.#presence
    const { change, told } = desired
    const status = desired.status ?? connection.status
    if (status !== told) return { ...change, status }
    return change.data === undefined ? null : change
  }

  #flush(): void {
    const { current, connection, desired, room } = this.#presence
    const news = this.#news()
    if (current === null || news === null) return
    // From here on the stream knows the whole.
    desired.wish(connection.status)
    void current.ask({ type: 'set', room, ...news }).then((answer) => {
      this.#presence.answered(current, answer)
      // An event stream may live on where a call did not get through.
      if (!answer.ok && answer.error.retry && current === this.#presence.current)
        this.#again.set(answerMs, () => this.#retell())
    })
  }

  /** Tells the whole again. */
  #retell(): void {
    const { desired } = this.#presence
    if (desired.data !== null) desired.change = { data: desired.data, replace: true }
    desired.told = null
    this.tell()
  }

  #ask(): void {
    const { connection, environment, room, told } = this.#presence
    if (told === null) return
    this.asked = true
    this.#askedAt = environment.now()
    this.#presence.fresh = false
    this.#expect(answerMs)
    if (!told.tell({ type: 'snapshot', room })) connection.reopen()
  }

  #expect(ms: number): void {
    this.#repair.set(ms, () => {
      const { entered, told } = this.#presence
      // A join that was refused for now, or never answered, is made again; else only the state is missing.
      if (told !== null && !entered) void this.#presence.join(told, true)
      else this.#ask()
    })
  }
}

/** The settling is over: drops the members that did not come back in time. */
export function settle(roster: Roster): Step {
  return change(
    { ...roster, settledAt: null },
    roster.list.filter(({ stale }) => stale),
  )
}
