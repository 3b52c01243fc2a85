package doctor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// How late events may be: what looks smooth, and what is a buffer.
const (
	late     = 500 * time.Millisecond
	tooLate  = 3 * time.Second
	maxHold  = 12 * time.Second // for the first beat
	joins    = 3                // how often the way of an event is measured
	leaseTTL = 5 * time.Second  // of the lease that it is measured with
)

// event is one server-sent event.
type event struct {
	name string
	data []byte
	at   time.Time
}

// stream is an open stream of events. Owned by examineStream, but for its reader.
type stream struct {
	v      *visit
	res    *http.Response
	events chan event // closed by the reader at the end
	err    error      // why it ended; static once events is closed
	cancel context.CancelFunc
	reader sync.WaitGroup

	sent  time.Time // the request
	last  time.Time // of the newest event
	ready struct {
		Connection, Resume, User string
		BeatMs, Now              int64
	}
	came time.Duration // until ready
}

// examineStream opens one observing stream and makes every check that it takes.
func (v *visit) examineStream(ctx context.Context, found func(Finding)) {
	// Compressors let short answers pass: somebody with much to show is there.
	var filler *lease
	if v.seen() {
		filler, _ = v.enter(ctx, map[string]string{"filler": strings.Repeat("rollcall ", 100)}) // checkEvents tells why not
	}
	s, f := v.openStream(ctx)
	if s == nil {
		found(f)
		return
	}
	defer s.close()
	headers := s.checkHeaders()
	if encoded := s.res.Header.Get("Content-Encoding"); encoded != "" {
		found(headers)
		return
	}
	f = s.checkFirstEvent(ctx)
	found(f)
	found(headers)
	if filler != nil {
		_ = v.leave(ctx, filler) // it would end by itself
	}
	if f.Verdict == Wrong {
		return
	}
	if filler != nil {
		_, _ = s.await(ctx, "leave", s.member())
	}
	found(s.checkEvents(ctx))
	found(s.checkHold(ctx))
}

func (v *visit) openStream(ctx context.Context) (*stream, Finding) {
	const name = "stream"
	ctx, cancel := context.WithCancel(ctx)
	s := &stream{v: v, events: make(chan event, 64), cancel: cancel}
	query := url.Values{"observe": {"1"}, "beat": {"1"}}
	r, err := v.request(ctx, http.MethodGet, v.at(query, "rooms", v.room, "stream"), nil)
	if err != nil {
		cancel()
		return nil, wrong(name, "", "%v", err)
	}
	r.Header.Set("Accept", "text/event-stream")
	// It must not be compressed although we ask for it.
	r.Header.Set("Accept-Encoding", "gzip, deflate, br, zstd")
	s.sent = time.Now()
	s.res, err = v.http.Do(r)
	if err != nil {
		cancel()
		err = withoutURL(err)
		return nil, wrong(name, "something in between keeps the answer back: switch buffering off there (nginx: proxy_buffering off, or leave X-Accel-Buffering alone)", "the stream does not open: %s", describe(err))
	}
	if s.res.StatusCode != http.StatusOK {
		raw, _ := io.ReadAll(io.LimitReader(s.res.Body, 1<<16))
		s.res.Body.Close()
		cancel()
		a := answer{status: s.res.StatusCode, header: s.res.Header, body: raw}
		if v.token.key && a.status == http.StatusForbidden {
			return nil, advice(name, "give the token of a user: a key opens no stream here", "not looked at")
		}
		return nil, wrong(name, "", "%d: %s", a.status, a.detail())
	}
	s.reader.Go(s.read)
	return s, Finding{}
}

func (s *stream) close() {
	s.cancel()
	s.res.Body.Close()
	for range s.events {
	}
	s.reader.Wait()
}

// read hands over events until the end.
func (s *stream) read() {
	defer close(s.events)
	in := bufio.NewReader(s.res.Body)
	var e event
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			s.err = err
			return
		}
		line = strings.TrimRight(line, "\r\n")
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && e.data != nil:
			e.at = time.Now()
			s.events <- e
			e = event{}
		case field == "event":
			e.name = value
		case field == "data":
			e.data = append(e.data, value...)
		}
	}
}

// errCut tells that the stream has ended.
var errCut = errors.New("the stream was cut")

// next waits for an event that fits.
func (s *stream) next(ctx context.Context, within time.Duration, fits func(*event) bool) (*event, error) {
	timer := time.NewTimer(within)
	defer timer.Stop()
	for {
		select {
		case e, open := <-s.events:
			if !open {
				return nil, errCut
			}
			s.last = e.at
			s.answer(ctx, &e)
			if fits(&e) {
				return &e, nil
			}
			if e.name == "bye" {
				return &e, errBye
			}
		case <-timer.C:
			return nil, context.DeadlineExceeded
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

var errBye = errors.New("the server ended the stream")

// answer answers a beat: whoever is silent is ended.
func (s *stream) answer(ctx context.Context, e *event) {
	if e.name != "beat" || s.ready.Connection == "" {
		return
	}
	var beat struct {
		N json.RawMessage `json:"n"`
	}
	if json.Unmarshal(e.data, &beat) == nil {
		s.v.call(ctx, http.MethodPost, s.v.at(nil, "connections", s.ready.Connection, "beat"),
			beat, http.Header{"Rollcall-Resume": {s.ready.Resume}})
	}
}

func (s *stream) checkFirstEvent(ctx context.Context) Finding {
	const name = "stream"
	const unbuffer = "something in between collects what passes: switch its buffering off for /v1/ (nginx: proxy_buffering off; and mind what stands before it)"
	e, err := s.next(ctx, patience, func(e *event) bool { return e.name == "ready" })
	switch {
	case errors.Is(err, errBye):
		return advice(name, "try again later, or against another node", "the server turns new streams away: %s", e.data)
	case errors.Is(err, errCut):
		return wrong(name, unbuffer, "it ended before its first event: %v", s.err)
	case err != nil:
		return wrong(name, unbuffer, "it opens, and %s", describe(err))
	}
	s.came = e.at.Sub(s.sent)
	if err := json.Unmarshal(e.data, &s.ready); err != nil {
		return wrong(name, "is the URL right?", "its first event is not ours: %v", err)
	}
	if s.ready.Now > 0 {
		s.v.ahead = time.UnixMilli(s.ready.Now).Sub(s.sent.Add(s.came / 2))
		s.v.clock, s.v.exact = true, true
	}
	if s.came > tooLate {
		return wrong(name, unbuffer, "the first event took %s", short(s.came))
	}
	return ok(name, "the first event came after %s, for %q", short(s.came), s.ready.User)
}

func (s *stream) checkHeaders() Finding {
	const name = "headers"
	h := s.res.Header
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	control := strings.ToLower(h.Get("Cache-Control"))
	buffering := h.Get("X-Accel-Buffering")
	switch {
	case h.Get("Content-Encoding") != "":
		return wrong(name, "leave text/event-stream out of what the proxy compresses: a compressor waits for more", "the stream is compressed: Content-Encoding: %s", h.Get("Content-Encoding"))
	case kind != "text/event-stream":
		return wrong(name, "leave the header alone in the proxy", "Content-Type is %q and not text/event-stream", h.Get("Content-Type"))
	case h.Get("Content-Length") != "":
		return wrong(name, "the proxy must pass the stream on as it comes", "the stream has a Content-Length: it was collected first")
	case buffering != "" && buffering != "no":
		return wrong(name, "leave the header alone in the proxy", "X-Accel-Buffering is %q", buffering)
	case !strings.Contains(control, "no-transform"), !strings.Contains(control, "no-store"):
		return advice(name, "leave the header alone in the proxy: the next one may keep or compress the stream", "Cache-Control is %q and was no-store, no-transform", h.Get("Cache-Control"))
	}
	seen := "text/event-stream, not compressed, not to be kept"
	if buffering == "" {
		seen += "; X-Accel-Buffering was taken off, as nginx does that obeys it"
	}
	return ok(name, "%s", seen)
}

// checkEvents has a lease come and go in the room and measures how long the news
// takes to come back.
func (s *stream) checkEvents(ctx context.Context) Finding {
	const name = "events"
	v := s.v
	if !v.seen() {
		return advice(name, "leave --room out to have it measured in a room that is made up", "not measured: nobody is to be seen in %q", v.room)
	}
	var worst time.Duration
	for i := range joins {
		took, err := s.measure(ctx, s.member())
		var refused *refusedError
		switch {
		case errors.As(err, &refused) && refused.a.status == http.StatusForbidden:
			return advice(name, "give a token that may be present in rooms by a pattern, such as --room 'doctor:*'", "not measured: the token may not be present in %q", v.room)
		case errors.As(err, &refused):
			return wrong(name, "does the proxy pass POST and DELETE on, with their bodies?", "POST answers %d: %s", refused.a.status, refused.a.detail())
		case errors.Is(err, context.DeadlineExceeded):
			return wrong(name, "something in between holds events back until it has more of them: switch its buffering off for /v1/", "the news of a join did not come within %s (of %d tries, the %s)", short(tooLate), joins, ordinal(i+1))
		case err != nil:
			return wrong(name, "", "%v", err)
		}
		worst = max(worst, took)
	}
	if worst > late {
		return advice(name, "is the network slow, or is the server busy (rollcall_event_lag_seconds)?", "a join and a leave take up to %s to arrive", short(worst))
	}
	return ok(name, "a join or a leave arrives within %s", short(worst))
}

func ordinal(n int) string { return strconv.Itoa(n) + [...]string{"th", "st", "nd", "rd"}[n%4] }

type refusedError struct{ a *answer }

func (e *refusedError) Error() string { return fmt.Sprintf("%d: %s", e.a.status, e.a.detail()) }

// measure has a lease come and go once; the result is the longer of both ways.
func (s *stream) measure(ctx context.Context, user string) (time.Duration, error) {
	sent := time.Now()
	l, err := s.v.enter(ctx, nil)
	if err != nil {
		return 0, err
	}
	joined, errJoin := s.await(ctx, "join", user)
	left := time.Now()
	if err := errors.Join(errJoin, s.v.leave(ctx, l)); err != nil {
		return 0, err
	}
	gone, err := s.await(ctx, "leave", user)
	if err != nil {
		return 0, err
	}
	return max(joined.Sub(sent), gone.Sub(left)), nil
}

// lease is one that the doctor holds for a moment.
type lease struct{ Connection, Resume string }

// enter has a lease granted in the room.
func (v *visit) enter(ctx context.Context, data map[string]string) (*lease, error) {
	body := map[string]any{"ttlMs": leaseTTL.Milliseconds()}
	if data != nil {
		body["data"] = data
	}
	if v.token.key {
		body["user"] = v.user
	}
	a, err := v.call(ctx, http.MethodPost, v.at(nil, "rooms", v.room, "connections"), body, nil)
	if err != nil {
		return nil, err
	}
	l := new(lease)
	if a.status != http.StatusCreated || json.Unmarshal(a.body, l) != nil {
		return nil, &refusedError{a}
	}
	return l, nil
}

func (v *visit) leave(ctx context.Context, l *lease) error {
	a, err := v.call(ctx, http.MethodDelete, v.at(nil, "rooms", v.room, "connections", l.Connection), nil,
		http.Header{"Rollcall-Resume": {l.Resume}})
	if err == nil && a.status != http.StatusNoContent {
		err = &refusedError{a}
	}
	return err
}

// seen reports whether the doctor may be seen in the room.
func (v *visit) seen() bool { return v.o.Room == "" && !v.token.hidden }

// member is the user of the doctor's leases.
func (s *stream) member() string {
	if s.v.token.key {
		return s.v.user
	}
	return s.ready.User
}

// await waits for a diff that tells of the user, and returns when it came.
func (s *stream) await(ctx context.Context, what, user string) (time.Time, error) {
	e, err := s.next(ctx, tooLate, func(e *event) bool {
		if e.name != "diff" && e.name != "snapshot" {
			return false
		}
		type named struct{ User string }
		var told struct{ Join, Leave, Members []named }
		if json.Unmarshal(e.data, &told) != nil {
			return false
		}
		list := told.Leave
		if what == "join" {
			list = append(told.Join, told.Members...)
		}
		for _, m := range list {
			if m.User == user {
				return true
			}
		}
		return false
	})
	if err != nil {
		return time.Time{}, err
	}
	return e.at, nil
}

// checkHold holds the stream, which is quiet but for beats, and tells when it was
// cut.
func (s *stream) checkHold(ctx context.Context) Finding {
	const name = "idle"
	beat := time.Duration(s.ready.BeatMs) * time.Millisecond
	hold, byBeat := s.v.o.Hold, false
	if hold == 0 {
		// Beats are spread by an eighteenth; the next one may be a whole one away.
		hold, byBeat = min(beat*12/10+time.Second, maxHold), true
	}
	s.v.o.Note(fmt.Sprintf("holding a stream open for up to %s", short(hold)))
	began := time.Now()
	beats := 0
	for {
		e, err := s.next(ctx, hold-time.Since(began), func(e *event) bool { return e.name == "beat" })
		held := time.Since(began)
		switch {
		case errors.Is(err, context.DeadlineExceeded) && beats == 0 && hold > beat*12/10:
			return wrong(name, "something in between holds small events back: switch its buffering off for /v1/", "no beat came in %s; one was due every %s", short(held), short(beat))
		case errors.Is(err, context.DeadlineExceeded):
			return ok(name, "held for %s; beats: %d", short(held), beats)
		case errors.Is(err, errBye):
			return advice(name, "try again later", "the server ended the stream after %s: %s", short(held), e.data)
		case errors.Is(err, errCut):
			return wrong(name, fmt.Sprintf("let the proxy wait for more than %s without a byte (nginx: proxy_read_timeout, HAProxy: timeout server and timeout client)", short(max(2*beat, time.Second))),
				"cut after %s, %s after the last event, without a word: %v", short(held), short(time.Since(s.last)), s.err)
		case err != nil:
			return advice(name, "", "not looked at: %v", err)
		}
		if beats++; byBeat {
			return ok(name, "quiet for %s, and then came a beat; --hold 70s finds longer limits", short(held))
		}
	}
}
